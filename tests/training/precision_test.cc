// SPDX-License-Identifier: Apache-2.0
// Models that compute in 16 bits: fit in all modes, state and gradients in float32, overflow, parts
// with a policy of their own, and errors. That every layer can do it, layer_modes_test.cc shows.
#include "etude/nn/precision.h"

#include <cmath>

#include <gtest/gtest.h>

#include "etude/data/loader.h"
#include "etude/io/safetensors.h"
#include "etude/nn/fit/fit.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "tests/expect_error.h"

namespace etude::precision_test {
namespace {

using nn::Mode;
using nn::Precision;
using nn::PrecisionPolicy;
using tests::expect_error;

struct Net {
  nn::BatchNorm input{3, {.momentum = 0.9}};
  nn::Dense hidden{3, 16, {.activation = nn::relu}};
  nn::Dropout dropout{0.1};
  nn::Dense output{16, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(hidden(input(x)))); }
};

data::Samples samples(int64_t n) {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < 3; ++k) {
      inputs.push_back(4 + std::sin(static_cast<float>(7 * i + 5 * k * k + i * k)));
    }
    labels.push_back(inputs[inputs.size() - 3] > 4 ? 1 : 0);
  }
  return {Tensor(inputs, {n, 3}), Tensor(labels)};
}

struct Training {
  explicit Training(const PrecisionPolicy& policy) : model(Net(), policy) {}
  Precision<Net> model;
  optim::Adam optimizer{{.lr = 1e-2}};
  data::Loader<data::Samples> data{samples(160), {.batch = 16, .seed = 4}};

  nn::History fit(Mode mode, int64_t epochs = 8) {
    return nn::fit(model, optimizer, data, nn::softmax_cross_entropy,
                   {.epochs = epochs, .mode = mode});
  }
};
Training fresh(const PrecisionPolicy& policy) {
  set_seed(11);
  return Training(policy);
}

void expect_all(const io::NamedTensors& tensors, DType dtype) {
  for (const auto& [name, x] : tensors) {
    EXPECT_TRUE(!is_floating(x.dtype()) || x.dtype() == dtype) << name;
  }
}

// spec: T17.a, Z16
TEST(Precision, FitsInAllModesAlike) {
  Training eager = fresh(nn::kMixedBFloat16);
  const nn::History history = eager.fit(Mode::kEager);
  EXPECT_GT(history.epochs.back().accuracy, 0.9);
  const data::Samples all = samples(160);
  EXPECT_GT(nn::evaluate(eager.model, data::batches(all, 50), nn::softmax_cross_entropy).accuracy,
            0.9);
  const io::NamedTensors parameters = io::named_tensors(eager.model);
  expect_all(parameters, kFloat32);
  ASSERT_TRUE(parameters.contains("layer/hidden/weight"));
  for (const Mode mode : {Mode::kStaged, Mode::kLazy}) {
    Training other = fresh(nn::kMixedBFloat16);
    EXPECT_EQ(other.fit(mode).batch_losses, history.batch_losses);
    for (const auto& [name, x] : io::named_tensors(other.model)) {
      EXPECT_TRUE(same_value(x, parameters.at(name))) << name;
    }
  }
  // The losses differ from float32, but not by much.
  Training wide = fresh({});
  const nn::History of_wide = wide.fit(Mode::kEager);
  EXPECT_NE(of_wide.batch_losses, history.batch_losses);
  EXPECT_NEAR(of_wide.batch_losses[0], history.batch_losses[0], 0.02);
  // Running means of numbers near 4 have more than 8 bits.
  const Tensor& mean = eager.model.layer.input.running.value.mean;
  EXPECT_LT(max(abs(mean - wide.model.layer.input.running.value.mean)).item<double>(), 5e-3);
}

// A scale that overflows is lowered until it does not; the updates until then are left out.
// spec: T17.b, O15.a
TEST(Precision, LossScalingCarriesFloat16) {
  for (const Mode mode : {Mode::kEager, Mode::kStaged, Mode::kLazy}) {
    Training training = fresh(nn::kMixedFloat16);
    training.optimizer.add(optim::loss_scaling({.initial = 0x1p24}));
    const nn::History history = training.fit(mode);
    EXPECT_GT(history.epochs.back().accuracy, 0.9);
    const double scale = training.optimizer.loss_scale().item<double>();
    EXPECT_LT(scale, 0x1p24);
    EXPECT_GT(scale, 1);
    EXPECT_LT(training.optimizer.updates(), 80);
    EXPECT_GT(training.optimizer.updates(), 60);
  }
}

// Gradients too small for float16 are lost without a scale, and kept with a scale.
// spec: T17.b
TEST(Precision, SmallGradientsNeedAScale) {
  const Precision<nn::Dense> model(nn::Dense(2, 1, {.weight_init = nn::ones}), nn::kMixedFloat16);
  const auto slope = [&](double scale) {
    return gradient(
        [&](const Precision<nn::Dense>& m) {
          return sum(m(ones({1, 2}))) * 1e-9 * scale;
        },
        model);
  };
  EXPECT_EQ(max(abs(slope(1).layer.weight)).item<double>(), 0);
  EXPECT_NEAR(min(slope(1024).layer.weight).item<double>() / 1024, 1e-9, 1e-10);
  EXPECT_EQ(slope(1).layer.weight.dtype(), kFloat32);
}

struct WithHead {
  nn::Dense hidden{3, 4};
  Precision<nn::Dense> head{nn::Dense(4, 2), {.output = kBFloat16}};
  Tensor operator()(const Tensor& x) const { return nn::relu(head(hidden(x))); }
};

// The head computes in float32 with its own parameters, which are not rounded on the way.
// spec: T17.a
TEST(Precision, PartsMayHaveAPolicyOfTheirOwn) {
  set_seed(5);
  const Precision<WithHead> model{WithHead()};
  const Tensor x = samples(6).inputs;
  const WithHead& net = model.layer;
  const auto narrow = [](const Tensor& t) { return astype(t, kBFloat16); };
  const Tensor hidden = matmul(narrow(x), narrow(net.hidden.weight)) + narrow(net.hidden.bias);
  const Tensor head = matmul(astype(hidden, kFloat32), net.head.layer.weight) + net.head.layer.bias;
  EXPECT_TRUE(same_value(model(x), astype(nn::relu(narrow(head)), kFloat32)));
}

// spec: T17.a
TEST(Precision, PoliciesDecideDtypes) {
  const Precision<Net> narrow(Net(),
                              {.compute = kFloat32, .parameter = kBFloat16, .output = kFloat64});
  EXPECT_EQ(narrow.layer.hidden.weight.dtype(), kBFloat16);
  EXPECT_EQ(narrow.layer.input.running.value.mean.dtype(), kFloat32);
  EXPECT_EQ(narrow(samples(2).inputs).dtype(), kFloat64);
  const Precision<Net> wide(Net(), {kFloat64, kFloat64, kFloat64});
  EXPECT_EQ(wide.layer.input.running.value.mean.dtype(), kFloat64);
  const nn::Summary shown = nn::summary(wide, {5, 3});
  ASSERT_EQ(shown.layers.size(), 5U);
  EXPECT_EQ(shown.layers[1].path, "layer/hidden");
  EXPECT_EQ(shown.layers[1].parameters, 64);
  EXPECT_EQ(shown.layers[4].kind, "Precision");
}

struct Mixes {
  nn::Dense hidden{3, 2};
  Tensor operator()(const Tensor& x) const { return hidden(x) + Tensor(std::vector<float>{1, 2}); }
};

// spec: T17.c
TEST(Precision, MistakesAreNamed) {
  const ErrorCode invalid = ErrorCode::kInvalidArgument;
  expect_error([] { Precision<Net>(Net(), {.compute = kInt32}); }, invalid,
               {"Precision: compute is int32, but must be one of float16, bfloat16, float32, "
                "float64",
                "precision_test.cc"});
  const Precision<Mixes> mixes{Mixes()};
  expect_error(
      [&] {
        mixes(ones({1, 3}));
      },
      invalid,
      {"add: operand 'x2' is float32 and operand 'x1' is bfloat16, but a layer with a "
       "PrecisionPolicy mixes no precisions. Cast one of them: astype(x2, bfloat16)",
       "precision_test.cc"});
  // Outside of such layers the promotion of the Array API standard holds.
  EXPECT_EQ((ones({2}, {.dtype = kBFloat16}) + ones({2})).dtype(), kFloat32);
  EXPECT_EQ(Mixes()(ones({1, 3})).dtype(), kFloat32);
  const Precision<Net> model{Net()};
  expect_error(
      [&] {
        nn::infer(model, ones({1, 4}));
      },
      invalid, {"input (BatchNorm): the input has shape [1,4]", "precision_test.cc"});
}

}  // namespace
}  // namespace etude::precision_test
