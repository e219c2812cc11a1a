// SPDX-License-Identifier: Apache-2.0
// The operators that layers and activations become, and groups of calls that resemble an operator.
// models_test.py compares the results with onnxruntime.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "tests/onnx/model_reader.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

using Fn = std::function<Tensor(const Tensor&)>;

struct Row {
  std::string name;
  Fn f;
  Tensor x;
  std::string ops;  // the operators of the model in order
  int64_t opset = 17;
};

class OnnxOperators : public ::testing::Test {
 protected:
  // The operators of the model. Its results are equal to the bit when it is loaded again.
  std::string ops_of(const Row& row) const {
    const auto file = folder_.path() / "model.onnx";
    const auto f = function([&](const Tensor& x) { return row.f(x); },
                            {.name = "predict", .arg_names = {"x"}});
    const Tensor want = f(row.x);
    onnx::save(file, f, {.opset = row.opset});
    const auto again = onnx::load(file).function("predict").as<Tensor(const Tensor&)>();
    EXPECT_TRUE(array_equal(again(row.x), want).item<bool>()) << row.name;
    std::string out;
    for (const ReadNode& node : read_model(file).nodes) {
      out += (out.empty() ? "" : " ") + node.op;
    }
    return out;
  }
  void expect(const std::vector<Row>& rows) const {
    for (const Row& row : rows) EXPECT_EQ(ops_of(row), row.ops) << row.name;
  }
  // Functions that are not the operator of the row.
  void expect_without(const std::vector<Row>& rows) const {
    for (const Row& row : rows) {
      const std::string ops = " " + ops_of(row) + " ";
      EXPECT_EQ(ops.find(" " + row.ops + " "), ops.npos) << row.name << ":" << ops;
    }
  }
  void SetUp() override { set_seed(3); }

  const internal::TempFolder folder_;
};

Tensor numbers(const IntList& shape) { return random::normal(shape); }
Tensor positive(const IntList& shape) { return random::uniform(shape) + 0.5F; }

// A layer with statistics and factors that are not 0 and 1.
nn::BatchNorm batch_norm(int64_t features, const nn::BatchNormOptions& options = {}) {
  nn::BatchNorm out(features, options);
  out.scale = positive({features});
  out.offset = numbers({features});
  out.running.value = {.mean = numbers({features}), .variance = positive({features})};
  return out;
}
template <class Norm>
Norm with_factors(Norm norm) {
  norm.scale = positive(norm.scale.shape().to_vector());
  norm.offset = numbers(norm.offset.shape().to_vector());
  return norm;
}

TEST_F(OnnxOperators, BatchNorm) {
  const nn::Conv2D conv({3, 3}, 2, 3);
  const nn::BatchNorm norm = batch_norm(3), first = batch_norm(3, {.axis = 1, .epsilon = 0.01});
  const Tensor mean = numbers({3}), var = positive({3});
  expect({{"images", norm, numbers({2, 4, 5, 3}), "Transpose BatchNormalization Transpose"},
          {"rows", norm, numbers({4, 3}), "BatchNormalization"},
          {"channels first", first, numbers({2, 3, 4, 5}), "BatchNormalization"},
          {"after a convolution", [&](const Tensor& x) { return nn::relu(norm(conv(x))); },
           numbers({2, 5, 5, 2}), "Transpose Conv BatchNormalization Transpose Relu"},
          {"the op", [&](const Tensor& x) { return nn::batch_normalize(x, mean, var, mean, var); },
           numbers({4, 3}), "BatchNormalization"},
          {"half precision", [&](const Tensor& x) { return norm(astype(x, kFloat16)); },
           numbers({4, 3}), "Cast Cast BatchNormalization Cast"}});
}

TEST_F(OnnxOperators, GroupsThatAreNoBatchNorm) {
  const Tensor mean = numbers({3}), var = positive({3}), wide = positive({2, 3});
  const auto scaled = [&](const Tensor& away, const Tensor& variance) {
    return away * (rsqrt(variance + 0.001F) * var) + mean;
  };
  expect_without(
      {{"another order of rounding",
        [&](const Tensor& x) { return (x - mean) / sqrt(var + 0.001F) * var + mean; },
        numbers({2, 2, 3}), "BatchNormalization"},
       {"a variance for each row", [&](const Tensor& x) { return scaled(x - mean, wide); },
        numbers({4, 2, 3}), "BatchNormalization"},
       {"a value that is read",
        [&](const Tensor& x) {
          const Tensor away = x - reshape(mean, {1, 1, 3});
          return away * (rsqrt(reshape(var, {1, 1, 3}) + 0.001F) * reshape(var, {1, 1, 3})) +
                 reshape(mean, {1, 1, 3}) + away;
        },
        numbers({4, 2, 3}), "BatchNormalization"},
       {"bfloat16",
        [&](const Tensor& x) {
          const auto narrow = [](const Tensor& t) { return astype(t, kBFloat16); };
          return nn::batch_normalize(narrow(x), narrow(mean), narrow(var), narrow(mean),
                                     narrow(var));
        },
        numbers({4, 3}), "BatchNormalization"},
       {"the axis of the examples",
        [&](const Tensor& x) { return nn::batch_normalize(x, mean, var, mean, var, {.axis = 0}); },
        numbers({3, 4}), "BatchNormalization"}});
}

TEST_F(OnnxOperators, LayerNorm) {
  const auto norm = [](const IntList& shape, const nn::LayerNormOptions& options = {}) {
    return with_factors(nn::LayerNorm(shape, options));
  };
  const nn::LayerNorm one = norm({6}), two = norm({5, 6});
  const nn::LayerNorm plain(IntList{6}, {.offset = false});
  expect({{"one axis", one, numbers({2, 5, 6}), "LayerNormalization"},
          {"two axes", two, numbers({2, 5, 6}), "LayerNormalization"},
          {"rows", one, numbers({4, 6}), "LayerNormalization"},
          {"no offset", plain, numbers({2, 5, 6}), "LayerNormalization"},
          {"a new shape",
           [&](const Tensor& x) {
             return reshape(one(x), {5, 12});
           },
           numbers({2, 5, 6}), "LayerNormalization Reshape"}});
  expect_without(
      {{"other axes", norm({2, 6}, {.axes = {0, 2}}), numbers({2, 5, 6}), "LayerNormalization"},
       {"columns", [](const Tensor& x) { return nn::batch_standardize(x, ones({6}), ones({6})).y; },
        numbers({5, 6}), "LayerNormalization"}});
}

TEST_F(OnnxOperators, GroupAndInstanceNorm) {
  const auto groups = with_factors(nn::GroupNorm(6, 2));
  const auto features = with_factors(nn::InstanceNorm(6));
  const auto first = with_factors(nn::GroupNorm(6, 2, {.axis = 1}));
  const auto each = with_factors(nn::InstanceNorm(6, {.axis = 1}));
  const Tensor images = numbers({2, 4, 5, 6}), moved = numbers({2, 6, 4, 5});
  const std::string instances = "InstanceNormalization";
  expect({{"groups", groups, images, "Transpose GroupNormalization Transpose", 21},
          {"groups of channels", first, moved, "GroupNormalization", 21},
          {"groups before opset 21", groups, images,
           "Transpose Reshape InstanceNormalization Reshape Transpose Mul Add"},
          {"groups of channels before opset 21", first, moved,
           "Reshape InstanceNormalization Reshape Reshape Mul Reshape Add"},
          {"groups of rows", groups, numbers({4, 6}),
           "Reshape InstanceNormalization Reshape Mul Add", 21},
          {"features", features, images, "Transpose InstanceNormalization Transpose"},
          {"channels", each, moved, "InstanceNormalization"},
          {"a group for each feature", nn::GroupNorm(6, 6), images,
           "Transpose InstanceNormalization Transpose", 21},
          {"after a convolution",
           [&, conv = nn::Conv2D({3, 3}, 6, 6)](const Tensor& x) { return groups(conv(x)); },
           images, "Transpose Conv GroupNormalization Transpose", 21}});
  const Fn doubles = [&](const Tensor& x) {
    return nn::instance_normalize(astype(x, kFloat64), {.scale = astype(groups.scale, kFloat64)});
  };
  expect_without({{"instances of doubles", doubles, images, instances},
                  {"groups of doubles", doubles, images, "GroupNormalization"}});
}

TEST_F(OnnxOperators, Activations) {
  const Tensor x = numbers({4, 6}) * 3.0F;
  const auto tanh_gelu = [](const Tensor& v) { return nn::gelu(v, {.approximate = "tanh"}); };
  const auto gelu = [](const Tensor& v) { return nn::gelu(v); };
  const auto clipped = [](const Tensor& v) { return clip(v, {.min = -1.0, .max = 2.0}); };
  expect({{"gelu", gelu, x, "Div Erf Add Mul Mul"},
          {"gelu", gelu, x, "Gelu", 21},
          {"gelu tanh", tanh_gelu, x, "Pow Mul Add Mul Tanh Add Mul Mul"},
          {"gelu tanh", tanh_gelu, x, "Gelu", 21},
          {"relu6", nn::relu6, x, "Clip"},
          {"clip", clipped, x, "Clip"},
          {"clip from below", [](const Tensor& v) { return clip(v, {.min = -1.0}); }, x, "Clip"},
          {"clip from above", [](const Tensor& v) { return clip(v, {.max = 1.0}); }, x, "Clip"},
          {"hard swish", nn::hard_swish, x, "HardSwish"},
          {"hard sigmoid", nn::hard_sigmoid, x, "HardSigmoid"},
          {"mish", nn::mish, x, "Mish", 18},
          {"softplus", nn::softplus, x, "Softplus"},
          {"softsign", nn::softsign, x, "Softsign"},
          {"selu", nn::selu, x, "Selu"},
          {"elu", [](const Tensor& v) { return nn::elu(v, {.alpha = 0.7}); }, x, "Elu"},
          {"leaky relu", [](const Tensor& v) { return nn::leaky_relu(v); }, x, "LeakyRelu"},
          {"log softmax", [](const Tensor& v) { return nn::log_softmax(v); }, x, "LogSoftmax"},
          {"prelu", nn::PReLU(6), x, "PRelu"}});
  const Tensor bounds = numbers({6});
  expect_without(
      {{"bounds by column", [&](const Tensor& v) { return clip(v, {.min = bounds}); }, x, "Clip"},
       {"an older opset", nn::mish, x, "Mish"},
       {"an older opset", gelu, x, "Gelu", 19}});
}

TEST_F(OnnxOperators, ActivationsOfOtherCalls) {
  const Tensor x = numbers({4, 6}) * 3.0F;
  const Tensor slope = numbers({6});
  const auto rest = [](const Tensor& v, double alpha, double divisor) {
    return where(v > 0.0, v, expm1(v / divisor) * alpha);
  };
  expect(
      {{"prelu", [&](const Tensor& v) { return where(v > 0.0, v, slope * v); }, x, "PRelu"},
       {"leaky relu", [](const Tensor& v) { return where(v > 0.0, v, v * 0.3); }, x, "LeakyRelu"},
       {"elu", [](const Tensor& v) { return where(v > 0.0, v, 0.3 * expm1(v)); }, x, "Elu"},
       {"elu of 1", [](const Tensor& v) { return where(v > 0.0, v, expm1(v)); }, x, "Elu"},
       {"celu", [&](const Tensor& v) { return rest(v, 0.7, 0.7); }, x, "Celu"},
       {"thresholded", [](const Tensor& v) { return where(v > 0.8, v, 0.0); }, x,
        "ThresholdedRelu"},
       {"thresholded", [](const Tensor& v) { return where(v > 0.8, v, zeros_like(v)); }, x,
        "ThresholdedRelu"},
       {"hard swish", [](const Tensor& v) { return v * nn::hard_sigmoid(v); }, x, "HardSwish"},
       {"hard swish", [](const Tensor& v) { return v * (nn::relu6(v + 3.0) / 6.0); }, x,
        "HardSwish"},
       {"hard sigmoid", [](const Tensor& v) { return nn::relu6(v + 3.0) / 6.0; }, x, "HardSigmoid"},
       {"hard sigmoid",
        [](const Tensor& v) { return clip(v * 0.2 + 0.5, {.min = 0.0, .max = 1.0}); }, x,
        "HardSigmoid"},
       {"mish", [](const Tensor& v) { return v * tanh(nn::softplus(v)); }, x, "Mish", 18},
       {"softsign", [](const Tensor& v) { return v / (1.0 + abs(v)); }, x, "Softsign"},
       {"clip", [](const Tensor& v) { return minimum(maximum(v, -1.0), 2.0); }, x, "Clip"},
       {"relu", [](const Tensor& v) { return maximum(v, 0.0); }, x, "Relu"}});
}

TEST_F(OnnxOperators, CallsThatAreNoActivation) {
  const Tensor x = numbers({4, 6}) * 3.0F;
  const Tensor slope = numbers({6});
  expect_without(
      {{"another threshold", [&](const Tensor& v) { return where(v > 1.0, v, slope * v); }, x,
        "PRelu"},
       {"a slope with more axes",
        [](const Tensor& v) {
          const Tensor one = sum(v, {.axis = {0}});
          return where(one > 0.0, one, v * one);
        },
        x, "PRelu"},
       {"another operand", [&](const Tensor& v) { return where(v > 0.0, v, slope * abs(v)); }, x,
        "PRelu"},
       {"a value that is read",
        [](const Tensor& v) {
          const Tensor e = expm1(v);
          return where(v > 0.0, v, e) + e;
        },
        x, "Elu"},
       {"two numbers", [&](const Tensor& v) { return where(v > 0.0, v, expm1(v / 0.8) * 0.7); }, x,
        "Celu"},
       {"another rest", [](const Tensor& v) { return where(v > 0.8, v, 0.1); }, x,
        "ThresholdedRelu"},
       {"another shift", [](const Tensor& v) { return v * (nn::relu6(v + 2.0) / 6.0); }, x,
        "HardSwish"},
       {"another order of rounding", [](const Tensor& v) { return v * nn::relu6(v + 3.0) / 6.0; },
        x, "HardSwish"},
       {"another divisor", [](const Tensor& v) { return nn::relu6(v + 3.0) / 5.0; }, x,
        "HardSigmoid"},
       {"a number that is no float32",
        [](const Tensor& v) {
          const Tensor wide = astype(v, kFloat64);
          return where(wide > 0.0, wide, wide * 0.12345678901234);
        },
        x, "LeakyRelu"},
       {"another value", [](const Tensor& v) { return v * tanh(nn::softplus(-v)); }, x, "Mish", 18},
       {"another number", [](const Tensor& v) { return v / (2.0 + abs(v)); }, x, "Softsign"},
       {"numbers by column",
        [&](const Tensor& v) { return minimum(maximum(v, slope), slope + 1.0); }, x, "Clip"},
       {"another number", [](const Tensor& v) { return maximum(v, 1.0); }, x, "Relu"},
       {"the logarithm of a softmax", [](const Tensor& v) { return log(nn::softmax(v)); }, x,
        "LogSoftmax"}});
}

TEST_F(OnnxOperators, SumsOfExponentials) {
  const Tensor x = numbers({2, 3, 4});
  const auto over = [](const IntList& axes, bool keepdims) {
    return [=](const Tensor& v) {
      return logsumexp(v, {.axis = axes.values(), .keepdims = keepdims});
    };
  };
  for (const int64_t opset : {17, 21}) {
    expect(
        {{"the last axis", over({2}, false), x, "ReduceLogSumExp", opset},
         {"the last axis stays", over({2}, true), x, "ReduceLogSumExp", opset},
         {"the first axis", over({0}, false), x, "ReduceLogSumExp", opset},
         {"the first axis stays", over({0}, true), x, "ReduceLogSumExp", opset},
         {"two axes", over({0, 2}, false), x, "ReduceLogSumExp", opset},
         {"two last axes", over({1, 2}, false), x, "ReduceLogSumExp", opset},
         {"all axes", [](const Tensor& v) { return logsumexp(v); }, x, "ReduceLogSumExp", opset}});
  }
  expect_without(
      {{"without care for large numbers",
        [](const Tensor& v) { return log(sum(exp(v), {.axis = {2}})); }, x, "ReduceLogSumExp"}});
}

}  // namespace
}  // namespace etude::onnx_test
