// SPDX-License-Identifier: Apache-2.0
// nn::Layer: models put together at run time have the bits, paths, errors and summaries of structs.
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/parts/parts_models.h"

namespace etude::parts_test {
namespace {

using etude::tests::expect_error;

nn::Sequential<nn::Dense, nn::BatchNorm, nn::Dropout, nn::Dense> static_chain() {
  set_seed(6);
  return nn::Sequential{nn::Dense(3, 8, {.activation = nn::relu}), nn::BatchNorm(8),
                        nn::Dropout(0.2), nn::Dense(8, 2)};
}
nn::Layer dynamic_chain() {
  set_seed(6);
  std::vector<nn::Layer> layers;
  layers.emplace_back(nn::Dense(3, 8, {.activation = nn::relu}));
  layers.emplace_back(nn::BatchNorm(8));
  layers.emplace_back(nn::Dropout(0.2));
  layers.emplace_back(nn::Dense(8, 2));
  return nn::Layer::sequential(std::move(layers));
}

TEST(ErasedLayer, AChainOfARunTimeListHasTheBitsOfTheStaticOne) {
  for (const How how : {How::kEager, How::kStaged, How::kLazy}) {
    auto fixed = static_chain();
    nn::Layer dynamic = dynamic_chain();
    optim::Adam a({.lr = 0.05}), b = a;
    const auto loss = [](const auto& m, const Tensor& x, const Tensor& y) {
      return nn::softmax_cross_entropy(m(x), y);
    };
    const auto x = train(how, fixed, a, loss), y = train(how, dynamic, b, loss);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(same_value(x[i], y[i])) << name_of(how) << " " << i;
    }
    expect_same_tensors(fixed, dynamic, name_of(how));
    expect_same_state(a.state(), b.state(), name_of(how));
    EXPECT_TRUE(dynamic.has("layers/1/running/mean"));
  }
}

TEST(ErasedLayer, IsTrainedByFitInAllModes) {
  for (const nn::Mode mode : {nn::Mode::kEager, nn::Mode::kStaged, nn::Mode::kLazy}) {
    auto fixed = static_chain();
    nn::Layer dynamic = dynamic_chain();
    optim::AdamW a({.lr = 0.05}), b = a;
    const auto run = [&](auto& model, auto& optimizer) {
      data::Loader<data::Samples> data({rows(), labels()}, {.batch = 4, .seed = 2});
      set_seed(9);
      return nn::fit(model, optimizer, data, nn::softmax_cross_entropy, {.epochs = 3, .mode = mode})
          .epochs.back()
          .loss;
    };
    EXPECT_EQ(run(fixed, a), run(dynamic, b));
    expect_same_tensors(fixed, dynamic, "fit");
    EXPECT_TRUE(same_value(nn::infer(fixed, rows()), nn::infer(dynamic, rows())));
  }
}

TEST(ErasedLayer, IsAValue) {
  const PhaseScope inference(Phase::kInference);
  nn::Layer a = dynamic_chain(), b = a;
  const Tensor before = a(rows());
  b.tensor("layers/3/bias") += Tensor(1.0F);
  EXPECT_TRUE(same_value(a(rows()), before));
  EXPECT_FALSE(same_value(b(rows()), before));
  EXPECT_EQ(freeze(b, "layers/0"), 2u);
  EXPECT_FALSE(a.leaf(0).is_frozen);
  const nn::Layer op = nn::relu;
  EXPECT_EQ(op.size(), 0u);
  EXPECT_TRUE(same_value(op(rows()), nn::relu(rows())));
  const nn::Layer of_parts(
      Parts::fields({{"w", ones({3, 1})}}),
      [](const Parts& p, const Tensor& x) { return matmul(x, p.tensor("w")); });
  EXPECT_TRUE(same_value(of_parts(rows()), matmul(rows(), ones({3, 1}))));
}

struct Shared {
  nn::Dense in{3, 4}, mix{4, 4, {.activation = nn::tanh}}, out{4, 2};
  Tensor operator()(const Tensor& x) const { return out(mix(mix(mix(in(x))))); }
};

TEST(ErasedLayer, ModulesOfOneNameShareTheirParameters) {
  set_seed(2);
  Shared fixed;
  nn::Layer dynamic = nn::Layer::graph(
      {{"in", fixed.in}, {"mix", fixed.mix}, {"mix"}, {"mix"}, {"out", fixed.out}});
  EXPECT_EQ(dynamic.size(), 6u);
  optim::SGD a({.lr = 0.1}), b = a;
  const auto loss = [](const auto& m, const Tensor& x, const Tensor& y) {
    return nn::softmax_cross_entropy(m(x), y);
  };
  train(How::kStaged, fixed, a, loss);
  train(How::kStaged, dynamic, b, loss);
  expect_same_tensors(fixed, dynamic, "shared");
  expect_error(
      [&] {
        nn::Layer::graph({{"in", fixed.in}, {"mid"}});
      },
      ErrorCode::kInvalidArgument, {"Layer::graph: module 'mid' has no layer"});
  expect_error(
      [&] {
        nn::Layer::graph({{"in", fixed.in}, {"in", fixed.out}});
      },
      ErrorCode::kInvalidArgument, {"module 'in' is given two layers"});
}

TEST(ErasedLayer, ErrorsAndSummariesNameThePathsOfTheStaticModel) {
  const auto fixed = static_chain();
  const nn::Layer dynamic = dynamic_chain();
  expect_error(
      [&] {
        nn::infer(dynamic, ones({2, 5}));
      },
      ErrorCode::kInvalidArgument, {"layers/0 (Dense): the input has shape [2,5]"});
  const nn::Layer of_struct = Shared();
  expect_error(
      [&] {
        of_struct(ones({2, 5}));
      },
      ErrorCode::kInvalidArgument, {"in (Dense): the input has shape [2,5]"});
  const nn::Summary a = nn::summary(fixed, {4, 3}), b = nn::summary(dynamic, {4, 3});
  EXPECT_EQ(a.to_string(), b.to_string());
  EXPECT_EQ(b.parameters, 3 * 8 + 8 + 16 + 8 * 2 + 2);
}

// Layers made apart are different functions, so a staged function does not mix them up.
TEST(ErasedLayer, StagedFunctionsTellLayersApart) {
  const nn::Layer a = nn::Lambda(nn::relu), b = nn::Lambda(nn::tanh);
  const auto f = function([](const nn::Layer& layer, const Tensor& x) { return layer(x); });
  EXPECT_TRUE(same_value(f(a, rows()), nn::relu(rows())));
  EXPECT_TRUE(same_value(f(b, rows()), nn::tanh(rows())));
  EXPECT_TRUE(same_value(f(a, rows()), nn::relu(rows())));
  EXPECT_EQ(f.trace_count(), 2u);
}

}  // namespace
}  // namespace etude::parts_test
