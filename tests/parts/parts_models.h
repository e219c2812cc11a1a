// SPDX-License-Identifier: Apache-2.0
// Models and a training loop for structs and for Parts.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude::parts_test {

// Layer state, dropout, an absent bias, a host value.
struct Mlp {
  nn::Dense hidden{3, 8, {.activation = nn::relu}};
  nn::BatchNorm norm{8, {.momentum = 0.9}};
  nn::Dropout dropout{0.2};
  nn::Dense output{8, 2, {.bias = false}};
  NoDerivative<double> gain{1.5};
  Tensor operator()(const Tensor& x) const { return output(dropout(norm(hidden(x)))) * gain.value; }
};

// A loop over time steps.
struct Recurrent {
  nn::GRUCell cell{3, 5};
  nn::Dense output{5, 2};
  Tensor operator()(const Tensor& x) const {
    const Tensor steps = reshape(x, {6, x.shape()[0] / 2, 1}) * ones({1, 1, 3});
    const auto step = [&](const Tensor& h, const Tensor& row) { return cell(row, h); };
    const Tensor last = fold(step, cell.zero_state(x.shape()[0] / 2), steps);
    return output(concat({last, last}));
  }
};

// Containers, and a part that can be frozen.
struct First {
  nn::Conv2D conv{{3, 3}, 1, 4, {.padding = "same", .activation = nn::relu}};
};
struct Image {
  Freezable<First> conv1;
  std::vector<nn::Conv2D> more{nn::Conv2D({3, 3}, 4, 4, {.activation = nn::relu})};
  nn::MaxPool2D pool{2};
  nn::Dense output{4, 2};
  Tensor operator()(const Tensor& x) const {
    Tensor y = conv1.value.conv(reshape(x, {-1, 1, 3, 1}) * ones({1, 8, 3, 1}));
    for (const nn::Conv2D& conv : more) y = conv(concat({y, y, y}, {.axis = 2}));
    return output(mean(pool(y), {.axis = {1, 2}}));
  }
};

inline Tensor rows() {
  std::vector<float> x;
  for (int i = 0; i < 36; ++i) x.push_back(std::sin(static_cast<float>(7 * i)));
  return Tensor(x, {12, 3});
}
inline Tensor labels() { return Tensor(std::vector<int32_t>{0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0}); }

enum class How { kEager, kStaged, kLazy };
inline const char* name_of(How how) {
  return how == How::kEager ? "eager" : how == How::kStaged ? "staged" : "lazy";
}

// Trains for some steps; returns the losses. loss(model, x, y) is a scalar.
template <class X, class Optimizer, class Loss>
std::vector<Tensor> train(How how, X& model, Optimizer& optimizer, const Loss& loss,
                          int steps = 6) {
  const PhaseScope training(Phase::kTraining);
  const auto step = [&loss](X& m, Optimizer& o, const Tensor& x, const Tensor& y) {
    const auto [value, slopes] =
        value_with_gradient([&](const X& at) -> Tensor { return loss(at, x, y); }, m);
    o.update(m, slopes);
    return value;
  };
  const Tensor x = rows(), y = labels();
  set_seed(21);
  std::vector<Tensor> losses;
  if (how == How::kStaged) {
    const auto staged = function(step, {.name = "step", .arg_names = {"model", "optimizer"}});
    for (int i = 0; i < steps; ++i) losses.push_back(staged(model, optimizer, x, y));
    EXPECT_LE(staged.trace_count(), 2u);
  } else if (how == How::kLazy) {
    const LazyScope lazy;
    for (int i = 0; i < steps; ++i) {
      losses.push_back(step(model, optimizer, x, y));
      lazy_barrier();
    }
  } else {
    for (int i = 0; i < steps; ++i) losses.push_back(step(model, optimizer, x, y));
  }
  return losses;
}

template <class Model>
auto loss_of_struct() {
  return [](const Model& m, const Tensor& x, const Tensor& y) {
    return nn::softmax_cross_entropy(m(x), y);
  };
}
// The same on the parts of `like`.
template <class Model>
auto loss_of_parts(const Model& like) {
  return [like](const Parts& p, const Tensor& x, const Tensor& y) {
    return nn::softmax_cross_entropy(struct_of(like, p)(x), y);
  };
}

template <class A, class B>
void expect_same_tensors(const A& a, const B& b, const std::string& what) {
  const io::NamedTensors x = io::named_tensors(a), y = io::named_tensors(b);
  ASSERT_EQ(x.size(), y.size()) << what;
  for (const auto& [name, tensor] : x) {
    ASSERT_TRUE(y.contains(name)) << what << ": " << name;
    EXPECT_TRUE(same_value(tensor, y.at(name))) << what << ": " << name;
  }
}
inline void expect_same_state(const optim::State& x, const optim::State& y,
                              const std::string& what) {
  ASSERT_EQ(x.size(), y.size()) << what;
  for (const auto& [name, tensor] : x) {
    ASSERT_TRUE(y.contains(name)) << what << ": " << name;
    EXPECT_TRUE(same_value(tensor, y.at(name))) << what << ": " << name;
  }
}

}  // namespace etude::parts_test
