// SPDX-License-Identifier: Apache-2.0
// Errors in layers name the layer, its input, its requirement, and the user's line.
#include <gtest/gtest.h>

#include "etude/nn/fit/fit.h"
#include "etude/nn/layers/activations.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/parts.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude::nn::layer_error_test {
namespace {

using etude::tests::thrown_by;

struct LeNet {
  Conv2D conv1{{5, 5}, 1, 6, {.padding = "same", .activation = relu}};
  MaxPool2D pool1{2};
  Conv2D conv2{{5, 5}, 6, 16, {.activation = relu}};
  MaxPool2D pool2{2};
  Flatten flatten;
  Dense fc1{400, 120, {.activation = relu}}, fc2{120, 84, {.activation = relu}}, fc3{84, 10};

  Tensor operator()(const Tensor& x) const {
    return sequenced(x, conv1, pool1, conv2, pool2, flatten, fc1, fc2, fc3);
  }
  static constexpr int kLine = __LINE__ - 2;
};

constexpr const char* kFile = "etude/nn/layers/layer_error_test.cc";

std::string at_line(int line) {
  return std::string("\n  at ") + kFile + ":" + std::to_string(line);
}

// spec: L1
TEST(LayerError, NamesKindShapesAndLine) {
  const Dense dense(2, 3);
  const Tensor x = zeros({1, 3});
  const int line = __LINE__ + 1;
  const Error error = thrown_by([&] { dense(x); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.what(),
            "Dense: the input has shape [1,3], but the layer needs at least 1 axis, the last of "
            "size 2 (its weight has shape [2,3])" +
                at_line(line));
}

struct Wrong {
  Shape input;
  const char* text;
};
const Wrong kWrong[] = {
    {{2, 28, 28, 3},
     "conv1 (Conv2D): the input has shape [2,28,28,3], but the layer needs 4 axes, the last of "
     "size 1 (its filter has shape [5,5,1,6])"},
    {{2, 28, 28},
     "conv1 (Conv2D): the input has shape [2,28,28], but the layer needs 4 axes, the last of size "
     "1 (its filter has shape [5,5,1,6])"},
    {{2, 32, 32, 1},
     "fc1 (Dense): the input has shape [2,576], but the layer needs at least 1 axis, the last of "
     "size 400 (its weight has shape [400,120])"},
};

// spec: L1, L3, L27
TEST(LayerError, AModelThatIsKnownGivesThePath) {
  const LeNet model;
  for (const Wrong& wrong : kWrong) {
    const std::string want = wrong.text + at_line(LeNet::kLine);
    EXPECT_EQ(thrown_by([&] { infer(model, zeros(wrong.input)); }).what(), want);
    EXPECT_EQ(thrown_by([&] { summary(model, wrong.input); }).what(), want);
  }
}

struct Batch {
  Tensor inputs, labels;
};
struct Position {
  int64_t epoch = 0, step = 0;
};
// One batch, again and again.
struct Data {
  Batch batch;
  Position at;
  Batch next() {
    ++at.epoch;
    return batch;
  }
  Position position() const { return at; }
  void seek(Position position) { at = position; }
  int64_t steps_per_epoch() const { return 1; }
};

struct NoOptimizer {
  template <class Model, class Gradients>
  void update(Model&, const Gradients&, CallSite = {}) {}
};

TEST(LayerError, TrainingAndEvaluationGiveThePath) {
  LeNet model;
  NoOptimizer optimizer;
  Data data{{zeros({2, 32, 32, 1}), Tensor({0, 1})}, {}};
  const std::string want = kWrong[2].text + at_line(LeNet::kLine);
  EXPECT_EQ(thrown_by([&] { fit(model, optimizer, data, softmax_cross_entropy); }).what(), want);
  const std::vector<Batch> batches = {data.batch};
  EXPECT_EQ(thrown_by([&] { evaluate(model, batches, softmax_cross_entropy); }).what(), want);
}

// spec: L25
TEST(LayerError, ContainersCount) {
  const LeNet lenet;
  const Error called = thrown_by([&] { lenet(zeros({2, 32, 32, 1})); });
  EXPECT_EQ(std::string(called.what()).find("sequenced[5] (Dense): the input has shape [2,576]"),
            0u)
      << called.what();
  EXPECT_EQ(called.where().line, LeNet::kLine);

  const Sequential model(Dense(2, 3), relu,
                         Sequential(std::vector<Dense>{Dense(3, 3), Dense(4, 4)}, Dense(3, 1)));
  const Tensor x = zeros({4, 2});
  const int here = __LINE__ + 1;
  const Error direct = thrown_by([&] { model(x); });
  EXPECT_EQ(std::string(direct.what()).find("Sequential[2][0][1] (Dense): "), 0u) << direct.what();
  EXPECT_EQ(direct.where().line, here);
  const Error inferred = thrown_by([&] { infer(model, x); });
  EXPECT_EQ(std::string(inferred.what()).find("layers/2/layers/0/1 (Dense): "), 0u)
      << inferred.what();
  EXPECT_EQ(std::string(inferred.where().file), kFile);
}

struct WrongMask {
  MultiHeadAttention attention{4, 2};
  Tensor operator()(const Tensor& x) const { return attention.attend(x, x, ones({3, 3})); }
};

// An empty layer in a tuple, or a layer that is a first field, shares its address with another
// layer.
// spec: L3
TEST(LayerError, LayersAtOneAddressKeepTheirPaths) {
  const Sequential model{Dense(4, 3), Flatten(), GlobalAvgPool2D(), Dense(3, 2)};
  const Error pool = thrown_by([&] { infer(model, ones({8, 4})); });
  EXPECT_EQ(std::string(pool.what()).find("layers/2 (GlobalAvgPool2D): "), 0u) << pool.what();
  const Error mask = thrown_by([&] { infer(WrongMask(), ones({2, 5, 4})); });
  EXPECT_EQ(std::string(mask.what()).find("attention (MultiHeadAttention): "), 0u) << mask.what();
}

struct Small {
  std::vector<Conv2D> convs = {Conv2D(3, 1, 1), Conv2D(3, 1, 1)};
  BatchNorm norm{2};
  Tensor operator()(const Tensor& x) const { return norm(convs[1](convs[0](x))); }
  static constexpr int kLine = __LINE__ - 1;
};

// An error of an op inside a layer names the layer, and the user's line, not the library's.
// spec: L3, L15
TEST(LayerError, OpsInsideLayersAreNamedToo) {
  const Small model;
  const Error small = thrown_by([&] { infer(model, zeros({1, 4, 4, 1})); });
  EXPECT_EQ(std::string(small.what()).find("convs/1 (Conv2D): conv2d: "), 0u) << small.what();
  EXPECT_EQ(small.where().line, Small::kLine);
  const Error norm = thrown_by([&] { infer(model, zeros({1, 8, 8, 1})); });
  EXPECT_EQ(std::string(norm.what()).find("norm (BatchNorm): the input has shape [1,4,4,1]"), 0u)
      << norm.what();
  EXPECT_EQ(norm.where().line, Small::kLine);
  const Dense dense(2, 3);
  ambient().promotion = Promotion::kStrict;
  const int line = __LINE__ + 1;
  const Error dtype = thrown_by([&] { dense(Tensor({true, false})); });
  ambient().promotion = Promotion::kKinds;
  EXPECT_EQ(std::string(dtype.what()).find("Dense: matmul: "), 0u) << dtype.what();
  EXPECT_EQ(dtype.where().line, line);
}

// spec: L12
TEST(LayerError, TheLineOfAUsersFunctionStays) {
  const int line = __LINE__ + 1;
  const Lambda function([](const Tensor& x) { return reshape(x, {7}); });
  const Error error = thrown_by([&] { function(zeros({2})); });
  EXPECT_EQ(std::string(error.what()).find("Lambda: reshape: "), 0u) << error.what();
  EXPECT_EQ(error.where().line, line);
}

// spec: L27, C1
TEST(Infer, RunsInTheInferencePhase) {
  const PhaseScope training(Phase::kTraining);
  const Sequential model(Dropout(0.5));
  const Tensor x = ones({64});
  EXPECT_TRUE(same_value(infer(model, x), x));
  EXPECT_TRUE(is_training());
}

// spec: T9.a, L1
TEST(Activation, NamesAndOpsWithOptions) {
  const Tensor x({-1.0, 1.0});
  EXPECT_NEAR(nn::tanh(x).to_vector<double>()[1], .7615942, 1e-6);
  EXPECT_TRUE(same_value(swish(x), silu(x)));
  EXPECT_NEAR(swish(x).to_vector<double>()[1], .7310586, 1e-6);
  Dense dense(2, 2, {.activation = gelu});  // an op with options
  dense.weight = Tensor({{1.0, 0.0}, {0.0, 1.0}});
  EXPECT_NEAR(dense(x).to_vector<double>()[1], .8413447, 1e-6);
  EXPECT_TRUE(same_value(Activation()(x), x));
}

}  // namespace
}  // namespace etude::nn::layer_error_test
