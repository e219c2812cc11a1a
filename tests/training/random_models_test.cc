// SPDX-License-Identifier: Apache-2.0
// Random small models, in which each layer is trained for a few steps with others: gradients agree
// with differences, any number of threads has the same bits, a training resumed from a file
// continues with the same bits, and copies continue independently.
#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/autodiff/state_update.h"
#include "etude/core/context/ambient.h"
#include "etude/device/cpu/parallel.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/optim/adam.h"
#include "tests/training/layer_table.h"

namespace etude {
namespace {

using tests::file_of;
using tests::layer_cases;
using tests::LayerCase;
using tests::Tensors;

// Numbers between -1 and 1 that no symmetry hides a fault in.
Tensor waves(const Shape& shape) {
  const Tensor at = arange(static_cast<double>(shape.count()), {.dtype = kFloat32});
  return reshape(sin(at * 1.3 + 0.4), IntList(shape));
}

Tensor loss_of(const Tensor& y) { return mean(square(y - waves(y.shape()))); }

// As many elements of y as `shape` has, bounded.
Tensor spread(const Tensor& y, const Shape& shape, DType dtype) {
  std::vector<int64_t> index;
  for (int64_t i = 0; i < shape.count(); ++i) index.push_back(i * 7 % y.size());
  return reshape(tanh(take(reshape(astype(y, dtype), {-1}), Tensor(index))), IntList(shape));
}

// A sequence of layers of the table: the result of each is added to the input of the next.
struct Chain {
  std::vector<const LayerCase*> parts;
  DType dtype = kFloat32;

  Tensors parameters() const {
    Tensors out;
    for (const LayerCase* part : parts) {
      out.insert(out.end(), part->parameters.begin(), part->parameters.end());
    }
    return out;
  }
  Tensor operator()(std::span<const Tensor> parameters) const {
    Tensor y;
    for (const LayerCase* part : parts) {
      const std::size_t count = part->parameters.size();
      Tensor x = is_floating(part->x.dtype()) ? astype(part->x, dtype) : part->x;
      if (y.has_value()) x = x + 0.3 * spread(y, x.shape(), dtype);
      y = part->call(parameters.first(count), x);
      parameters = parameters.subspan(count);
    }
    return y;
  }
  std::string names() const {
    std::string out;
    for (const LayerCase* part : parts) out += (out.empty() ? "" : ", ") + part->name;
    return out;
  }
};

// A chain for each layer of the table, with up to two random further layers.
std::vector<Chain> random_chains() {
  std::mt19937 random(7);
  const std::vector<LayerCase>& all = layer_cases();
  const auto any = [&] { return &all[random() % all.size()]; };
  std::vector<Chain> out;
  for (const LayerCase& layer : all) {
    Chain chain;
    do {
      chain.parts = {&layer};
      for (std::size_t more = random() % 3; more > 0; --more) {
        chain.parts.insert(chain.parts.begin() + static_cast<std::ptrdiff_t>(random() % 2), any());
      }
      // Layers with integer inputs come first, since nothing can be added to integers.
      std::stable_partition(chain.parts.begin(), chain.parts.end(),
                            [](const LayerCase* part) { return !is_floating(part->x.dtype()); });
    } while (chain.parameters().empty() ||
             (chain.parts.size() > 1 && !is_floating(chain.parts[1]->x.dtype())));
    out.push_back(std::move(chain));
  }
  return out;
}

struct Nowhere {
  struct Position {
    int64_t epoch = 0, step = 0;
  };
  static Position position() { return {}; }
  static void seek(Position) {}
};

// A model, its loss, and its optimiser.
template <class Model, class Loss>
struct Trained {
  Model model;
  const Loss& loss;
  optim::Adam adam{{.lr = 0.01}};

  void train(int steps) {
    const PhaseScope training(Phase::kTraining);
    for (int i = 0; i < steps; ++i) adam.update(model, gradient(loss, model));
  }
  io::NamedTensors values() const { return io::named_tensors(model); }
};

void expect_same(const io::NamedTensors& a, const io::NamedTensors& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, x] : a) EXPECT_TRUE(same_value(x, b.at(name))) << what << ": " << name;
}

// Four steps, and two times two.
template <class Model, class Loss>
void expect_trains_alike(const Model& model, const Loss& loss) {
  const auto fresh = [&] {
    set_seed(9);
    return Trained<Model, Loss>{model, loss};
  };
  Trained<Model, Loss> whole = fresh();
  whole.train(4);
  const io::NamedTensors end = whole.values();
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    Trained<Model, Loss> other = fresh();
    other.train(4);
    expect_same(other.values(), end, "with other threads");
  }
  set_thread_count(0);

  Trained<Model, Loss> first = fresh();
  first.train(2);
  const std::string path = file_of("half_way");
  Nowhere data;
  io::save_checkpoint(path, first.model, first.adam, data);
  Trained<Model, Loss> copy = first;
  const Generator generator = ambient().generator;
  const io::NamedTensors half = first.values();
  first.train(2);
  expect_same(first.values(), end, "half and half");
  expect_same(copy.values(), half, "a copy that nobody trained");
  ambient().generator = generator;
  copy.train(2);
  expect_same(copy.values(), end, "a copy that went on");
  expect_same(first.values(), end, "the original of such a copy");

  Trained<Model, Loss> loaded = fresh();
  io::load_checkpoint(path, loaded.model, loaded.adam, data);
  expect_same(loaded.values(), half, "what was loaded");
  loaded.train(2);
  expect_same(loaded.values(), end, "what went on from a file");
}

// spec: L1..L12, L14..L24, L28..L30, K1.a
TEST(RandomModels, TrainAlikeOverThreadsFilesAndCopies) {
  for (const Chain& chain : random_chains()) {
    SCOPED_TRACE(chain.names());
    expect_trains_alike(chain.parameters(), [&](const Tensors& p) {
      const internal::StateReplay state_is_not_of_the_table({});
      return loss_of(chain(p));
    });
  }
}

// Of each model the derivative along one random direction, in float64.
// spec: L1..L12, L14..L24, L28..L30
TEST(RandomModels, GradientsAreThoseOfDifferences) {
  for (Chain chain : random_chains()) {
    SCOPED_TRACE(chain.names());
    chain.dtype = kFloat64;
    set_seed(4);
    Tensors at, along;
    for (const Tensor& p : chain.parameters()) {
      at.push_back(astype(p, kFloat64));
      along.push_back(random::normal(p.shape(), {.dtype = kFloat64}));
    }
    const auto moved = [&](double by) {
      Tensors to;
      for (std::size_t i = 0; i < at.size(); ++i) to.push_back(at[i] + along[i] * by);
      return loss_of(chain(to)).item<double>();
    };
    const Tensors slopes = gradient([&](const Tensors& p) { return loss_of(chain(p)); }, at);
    double slope = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (!slopes[i].has_value()) continue;
      slope += sum(to_dense(slopes[i]) * along[i]).item<double>();
    }
    constexpr double kStep = 1e-5;
    const double difference = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    EXPECT_NEAR(slope, difference, 1e-6 * (1 + std::abs(difference)));
    EXPECT_NE(slope, 0);
  }
}

// State moves with the rest.
struct Stateful {
  nn::BatchNorm input{6, {.momentum = 0.5}};
  nn::SpectralNorm<nn::Dense> hidden{nn::Dense(6, 8)};
  nn::Dropout dropout{0.3};
  nn::BatchNorm norm{8, {.momentum = 0.5}};
  nn::Dense output{8, 2};
  Tensor operator()(const Tensor& x) const {
    return output(dropout(nn::relu(norm(hidden(input(x))))));
  }
};

// spec: L15, L30, K1.a
TEST(RandomModels, WithStateTrainAlikeToo) {
  set_seed(5);
  const Stateful model;
  const Tensor x = random::normal({7, 6}, {.dtype = kFloat32}) + 2.0;
  expect_trains_alike(model, [&](const Stateful& m) { return loss_of(m(x)); });
  Trained trained{model, [&](const Stateful& m) { return loss_of(m(x)); }};
  trained.train(1);
  EXPECT_FALSE(same_value(trained.model.input.running.value.mean, model.input.running.value.mean));
  EXPECT_FALSE(same_value(trained.model.hidden.vector.value, model.hidden.vector.value));
}

}  // namespace
}  // namespace etude
