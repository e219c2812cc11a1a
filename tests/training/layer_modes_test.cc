// SPDX-License-Identifier: Apache-2.0
// The conditions for every layer, over one table of all: eager, staged and lazy calls have the same
// bits, with gradients, for any number of threads, also in 16 bits; gradients agree with central
// differences; summaries show the layer; a training resumed from a file continues with the same
// bits.
#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/autodiff/gradient_check.h"
#include "etude/autodiff/state_update.h"
#include "etude/core/context/ambient.h"
#include "etude/device/cpu/parallel.h"
#include "etude/io/safetensors.h"
#include "etude/lazy/lazy.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "etude/stage/function.h"
#include "tests/same_numbers.h"
#include "tests/training/layer_table.h"

namespace etude {
namespace {

using tests::CallOn;
using tests::file_of;
using tests::layer_cases;
using tests::same_numbers;
using tests::Tensors;
using Case = tests::LayerCase;

// The result, and how its square moves the input and the parameters.
Tensors outcome(const CallOn& call, const Tensors& parameters, const Tensor& x) {
  Tensors out = {call(parameters, x)};
  if (is_floating(x.dtype())) {
    out.push_back(gradient([&](const Tensor& v) { return sum(square(call(parameters, v))); }, x));
  }
  if (parameters.empty()) return out;
  const Tensors moved =
      gradient([&](const Tensors& p) { return sum(square(call(p, x))); }, parameters);
  for (const Tensor& g : moved) {
    if (g.has_value()) out.push_back(g);
  }
  return out;
}

void expect_same(const Tensors& a, const Tensors& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_numbers(a[i], b[i])) << what << i;
}

// Expects the eager outcome in the other modes, and returns it.
Tensors expect_same_in_all_modes(const CallOn& call, const Case& c) {
  set_seed(3);
  const Tensors eager = outcome(call, c.parameters, c.x);
  const auto staged =
      function([&](const Tensors& p, const Tensor& x) { return outcome(call, p, x); });
  set_seed(3);
  expect_same(eager, staged(c.parameters, c.x), "staged, result ");
  set_seed(3);
  Tensors lazy;
  LazyOptions options = lazy_options();
  options.background = false;  // so that a program runs, and not call by call
  set_lazy_options(options);
  {
    const LazyScope recorded;
    lazy = outcome(call, c.parameters, c.x);
  }
  expect_same(eager, lazy, "lazy, result ");
  return eager;
}

// spec: L1..L12, L14..L24, L28..L30
TEST(LayerModes, StagedAndLazyLayersGiveTheBitsOfEagerOnes) {
  for (const Case& c : layer_cases()) {
    SCOPED_TRACE(c.name);
    for (const Phase phase : {Phase::kInference, Phase::kTraining}) {
      const PhaseScope scope(phase);
      const internal::StateReplay nobody_takes_state({});
      const Tensors eager = expect_same_in_all_modes(c.call, c);
      for (const int threads : {1, 2, 7}) {
        set_thread_count(threads);
        set_seed(3);
        expect_same(eager, outcome(c.call, c.parameters, c.x), "other threads, result ");
      }
      set_thread_count(0);
    }
  }
}

// No layer mixes precisions by itself, gradients have the dtype of their parameters, and results
// agree with float32 to 8 bits of precision.
// spec: T17.a, Z16
TEST(LayerModes, ComputeIn16BitsOnRequest) {
  for (const Case& c : layer_cases()) {
    SCOPED_TRACE(c.name);
    for (const Phase phase : {Phase::kInference, Phase::kTraining}) {
      const PhaseScope scope(phase);
      const internal::StateReplay nobody_takes_state({});
      const Tensors narrow = expect_same_in_all_modes(c.narrow, c);
      set_seed(3);
      const Tensors wide = outcome(c.call, c.parameters, c.x);
      ASSERT_EQ(narrow.size(), wide.size());
      for (std::size_t i = 0; i < wide.size(); ++i) {
        EXPECT_TRUE(c.name == "Precision" || narrow[i].dtype() == wide[i].dtype()) << i;
      }
      const Tensor off = max(abs(narrow[0] - wide[0])), largest = max(abs(wide[0]));
      // Twenty roundings of 2^-9 in sequence, as in a decoder with its embeddings.
      EXPECT_LE(off.item<double>(), 0.04 * (largest.item<double>() + 0.1));
    }
  }
}

// A number between -1 and 1 for each element, so that no sum hides a fault.
Tensor weighted(const Tensor& y) {
  const Tensor at = arange(static_cast<double>(y.size()), {.dtype = kFloat64});
  return y * reshape(sin(at * 1.3 + 0.4), IntList(y.shape()));
}

TEST(LayerModes, GradientsAreThoseOfCentralDifferences) {
  for (const Case& c : layer_cases()) {
    Tensors arguments = c.parameters;
    const bool moves_x = is_floating(c.x.dtype());
    if (moves_x) arguments.push_back(c.x);
    EXPECT_EQ(check_gradient(
                  [&](std::span<const Tensor> given) {
                    const auto parameters = given.first(c.parameters.size());
                    return weighted(c.call(parameters, moves_x ? given.back() : c.x));
                  },
                  arguments),
              "")
        << c.name;
  }
}

TEST(LayerModes, ATrainingThatIsSavedHalfWayGoesOnBitForBit) {
  for (const Case& c : layer_cases()) {
    if (c.parameters.empty()) continue;
    SCOPED_TRACE(c.name);
    const auto train = [&](Tensors& parameters, optim::Adam& adam) {
      for (int step = 0; step < 2; ++step) {
        adam.update(parameters,
                    gradient([&](const Tensors& p) { return mean(square(c.call(p, c.x) - 1.0F)); },
                             parameters));
      }
    };
    Tensors parameters = c.parameters;
    optim::Adam adam({.lr = 0.01});
    train(parameters, adam);
    const std::string model = file_of("model"), state = file_of("state");
    io::save(parameters, model);
    io::save_safetensors(state, adam.state());
    train(parameters, adam);

    Tensors again = c.parameters;
    optim::Adam other({.lr = 0.01});
    io::load(again, model);
    other.restore(io::load_safetensors(state).tensors);
    train(again, other);
    expect_same(parameters, again, "parameter ");
    EXPECT_FALSE(same_value(parameters[0], c.parameters[0])) << "nothing was learnt";
  }
}

// Repeated rows count together in an update, and rows that were not read stay.
// spec: L14
TEST(EmbeddingUpdates, RowsGoThroughOptimisers) {
  nn::Embedding words(5, 2);
  const Tensor ids({{4, 0}, {4, -2}});
  const auto slope = gradient([&](const nn::Embedding& e) { return sum(e(ids) * 2.0F); }, words);
  ASSERT_TRUE(slope.table.slices().has_value()) << "the gradient is dense";
  auto full = slope;
  full.table = to_dense(slope.table);
  const auto updated = [&](auto optimizer, const auto& by) {
    nn::Embedding moved = words;
    optimizer.update(moved, by);
    optimizer.update(moved, by);
    return moved.table;
  };
  const optim::SGD sgd({.lr = 0.5});
  EXPECT_TRUE(same_value(updated(sgd, slope), updated(sgd, full)));
  const std::vector<float> moves = (updated(sgd, slope) - words.table).to_vector<float>();
  const float want[] = {-2, -2, 0, 0, 0, 0, -2, -2, -4, -4};
  for (std::size_t i = 0; i < moves.size(); ++i) EXPECT_NEAR(moves[i], want[i], 1e-5) << i;
  const optim::Adam adam({.lr = 0.1});
  EXPECT_TRUE(same_value(updated(adam, slope), updated(adam, full)));
}

// A model of one layer, whatever it is.
struct Any {
  const Case* of;
  Tensor operator()(const Tensor& x) const { return of->call(of->parameters, x); }
};

// spec: L27
TEST(LayerModes, SummariesShowThem) {
  for (const Case& c : layer_cases()) {
    if (c.name == "Sequential") continue;  // which shows its parts instead
    const nn::Summary found = nn::summary(Any{&c}, TensorSpec{c.x.shape(), c.x.dtype()});
    ASSERT_FALSE(found.layers.empty()) << c.name;
    EXPECT_EQ(found.layers.back().kind, c.name);
    EXPECT_EQ(found.result, c.call(c.parameters, c.x).shape()) << c.name;
  }
}

}  // namespace
}  // namespace etude
