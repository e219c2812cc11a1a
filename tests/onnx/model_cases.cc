// SPDX-License-Identifier: Apache-2.0
// Whole models, control flow and structures as models of ONNX.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "etude/etude.h"
#include "etude/nn/models/models.h"
#include "examples/lenet.h"
#include "tests/onnx/cases.h"

namespace etude::onnx_cases {
namespace {

struct LstmModel {
  nn::Embedding words{20, 8};
  nn::Recurrent<nn::LSTMCell> lstm{nn::LSTMCell(8, 12)};
  nn::Dense out{12, 5};

  Tensor operator()(const Tensor& ids) const {
    const Tensor all = lstm(words(ids));
    return out(mean(all, {.axis = {1}}));
  }
};

// A model on images or rows, at three sizes of a batch.
template <class Model>
void add_model(Cases& to, const std::string& name, const Model& model, const Tensor& x) {
  const auto predict = function([](const Model& m, const Tensor& v) { return m(v); },
                                {.name = name, .arg_names = {"model", "x"}});
  std::vector<Run> runs;
  for (const int64_t n : {2, 3, 7, 1}) {
    const Tensor rows = x.at(slice(0, n));
    runs.push_back({{{"x", rows}}, {{"output", predict(model, rows)}}});
  }
  to.add_function(name, saved::Entry("predict", saved::bind(predict, model)), runs);
}

void add_models(Cases& to) {
  set_seed(7);
  add_model(to, "lenet", LeNet(), random::normal({7, 28, 28, 1}));
  add_model(to, "resnet20", nn::models::resnet_cifar(20), random::normal({7, 32, 32, 3}));
  const Tensor ids = astype(random::uniform({7, 6}) * 20.0F, kInt32);
  add_model(to, "lstm", LstmModel(), ids);
  const nn::TransformerEncoderLayer block(16, 4, {.hidden = 32});
  add_model(to, "transformer_block", block, random::normal({7, 5, 16}));
  add_model(to, "text_decoder",
            nn::TextDecoder({.vocabulary = 20, .positions = 8, .dim = 8, .layers = 2, .heads = 2}),
            ids);
}

// A function of one tensor at some values of it.
template <class F>
void add_function(Cases& to, const std::string& name, const F& f, const std::vector<Tensor>& xs) {
  const auto staged = function(f, {.name = name, .arg_names = {"x"}});
  std::vector<Run> runs;
  for (const Tensor& x : xs) runs.push_back({{{"x", x}}, {{"output", staged(x)}}});
  to.add_function(name, saved::Entry(name, staged), runs);
}

void add_control_flow(Cases& to) {
  const std::vector<Tensor> xs = {Tensor({1.0F, -2.0F, 3.0F}), Tensor({-4.0F, 0.5F, 1.0F})};
  add_function(
      to, "cond",
      [](const Tensor& x) {
        return cond(
            sum(x) > 0.0F, [](const Tensor& v) { return v * 2.0F; },
            [](const Tensor& v) { return v - 1.0F; }, x);
      },
      xs);
  add_function(
      to, "while_loop",
      [](const Tensor& x) {
        return while_loop([](const Tensor& v) { return sum(v * v) < 1000.0F; },
                          [&](const Tensor& v) { return v * 1.5F + x; }, x);
      },
      xs);
  const std::vector<Tensor> rows = {random::normal({4, 3})};
  add_function(
      to, "fold",
      [](const Tensor& x) {
        return fold([](const Tensor& sum, const Tensor& row) { return tanh(sum) + row; },
                    zeros({3}), x);
      },
      rows);
}

// Groups of calls that are one operator (etude/onnx/recognise.h).
void add_groups(Cases& to) {
  const std::vector<Tensor> xs = {random::normal({4, 6}) * 3.0F, random::normal({2, 6}) * 3.0F};
  const Tensor slope = random::normal({6});
  const auto add = [&](const char* name, const std::function<Tensor(const Tensor&)>& f) {
    add_function(to, name, f, xs);
  };
  add("prelu", [&](const Tensor& x) { return where(x > 0.0, x, x * slope); });
  add("leaky_relu", [](const Tensor& x) { return where(x > 0.0, x, x * 0.3); });
  add("elu", [](const Tensor& x) { return where(x > 0.0, x, expm1(x) * 0.3); });
  add("celu", [](const Tensor& x) { return where(x > 0.0, x, expm1(x / 0.7) * 0.7); });
  add("thresholded_relu", [](const Tensor& x) { return where(x > 0.8, x, 0.0); });
  add("hard_swish", [](const Tensor& x) { return x * (nn::relu6(x + 3.0) / 6.0); });
  add("hard_sigmoid", [](const Tensor& x) { return nn::relu6(x + 3.0) / 6.0; });
  add("hard_sigmoid_by_clip",
      [](const Tensor& x) { return clip(x * 0.2 + 0.5, {.min = 0.0, .max = 1.0}); });
  add("mish", [](const Tensor& x) { return x * tanh(nn::softplus(x)); });
  add("softsign", [](const Tensor& x) { return x / (1.0 + abs(x)); });
  add("clip", [](const Tensor& x) { return minimum(maximum(x, -1.0), 2.0); });
  add("relu", [](const Tensor& x) { return maximum(x, 0.0); });
  add("logsumexp", [](const Tensor& x) { return logsumexp(x, {.axis = {0}, .keepdims = true}); });
  const std::vector<Tensor> images = {random::normal({2, 6, 4, 5}), random::normal({3, 6, 4, 5})};
  for (const int64_t axis : {1, 2, 3}) {
    const int64_t features = images[0].shape()[static_cast<int>(axis)];
    const Tensor scale = random::uniform({features}) + 0.5F, offset = random::normal({features});
    add_function(
        to, fmt::format("batch_norm_{}", axis),
        [=](const Tensor& x) {
          return nn::batch_normalize(x, offset, scale, offset, scale, {.axis = axis});
        },
        images);
    add_function(
        to, fmt::format("instance_norm_{}", axis),
        [=](const Tensor& x) {
          return nn::instance_normalize(x, {.axis = axis, .scale = scale, .offset = offset});
        },
        images);
    if (features % 2 != 0) continue;
    add_function(
        to, fmt::format("group_norm_{}", axis),
        [=](const Tensor& x) {
          return nn::group_normalize(x, 2, {.axis = axis, .scale = scale, .offset = offset});
        },
        images);
  }
}

// Quotients and casts at values where the operator of the other program has another result.
void add_edges(Cases& to) {
  const auto add = [&](const std::string& name, const auto& f, const Tensor& a, const Tensor& b) {
    const auto staged = function(f, {.name = name, .arg_names = {"a", "b"}});
    to.add_function(name, saved::Entry(name, staged),
                    {{{{"a", a}, {"b", b}}, {{"output", staged(a, b)}}}});
  };
  const auto quotient = [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); };
  const auto rest = [](const Tensor& a, const Tensor& b) { return remainder(a, b); };
  const std::vector<double> xs = {1,   6,    1.5,  -104, inf, -inf, 0,   0,    -0.0, 7,
                                  -7,  7,    -7,   -5,   5,   -6,   1,   -1,   0,    -1e-20,
                                  nan, 1e30, -0.5, 0.5,  inf, 0.3,  -12, 1e10, -3,   3};
  const std::vector<double> ys = {0.1, 0.1, -inf, inf, 3, 3,   -3, inf, 3,  2,
                                  2,   -2,  -2,   inf, 3, 0.1, 0,  0,   0,  3,
                                  3,   nan, inf,  inf, 0, 0.1, 4,  -7,  -3, inf};
  for (const DType dtype : {kFloat32, kFloat64, kFloat16}) {
    const Tensor a = astype(Tensor(xs), dtype), b = astype(Tensor(ys), dtype);
    add(fmt::format("floor_divide_{}", name(dtype)), quotient, a, b);
    add(fmt::format("remainder_{}", name(dtype)), rest, a, b);
    // 1 / 0 is infinite with the sign of the zero, which onnxruntime does not keep.
    if (to.form().extension == ".onnx") continue;
    const auto inverse_rest = [](const Tensor& x, const Tensor& y) {
      return 1.0 / remainder(x, y);
    };
    const auto inverse_quotient = [](const Tensor& x, const Tensor& y) {
      return 1.0 / floor_divide(x, y);
    };
    add(fmt::format("sign_of_remainder_{}", name(dtype)), inverse_rest, a, b);
    add(fmt::format("sign_of_quotient_{}", name(dtype)), inverse_quotient, a, b);
  }
  const Tensor wide({-2147483647 - 1, 2147483647, -7, 7, -6, 0, -2147483647 - 1});
  const Tensor by({3, -5, 2, -2, 3, -4, 2147483647});
  add("floor_divide_int32", quotient, wide, by);
  const int64_t most = std::numeric_limits<int64_t>::max();
  add("floor_divide_int64", quotient, Tensor(std::vector<int64_t>{-most - 1, most, -7}),
      Tensor(std::vector<int64_t>{3, -5, 2}));

  const std::vector<double> values = {300.7, -300.7, nan,          inf,     -inf,  0.9,
                                      -0.9,  127.5,  -128.5,       255.9,   65536, 2147483520.0,
                                      3e9,   -3e9,   4294967040.0, 5e9,     1e19,  -1e19,
                                      2e19,  9e18,   -9e18,        32767.5, -2.5,  1.8e19};
  for (const DType from : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const DType dtype : {kInt8, kInt16, kInt32, kInt64, kUInt8, kUInt16, kUInt32, kUInt64}) {
      add_function(to, fmt::format("cast_{}_{}", name(from), name(dtype)),
                   [=](const Tensor& x) { return astype(x, dtype); },
                   {astype(Tensor(values), from)});
    }
  }
}

struct Scored {
  Tensor scores, best;
};

void add_structures(Cases& to) {
  const auto f = function(
      [](const Tensor& a, const Tensor& b) {
        return Scored{matmul(a, b), argmax(matmul(a, b), {.axis = -1})};
      },
      {.name = "scored", .arg_names = {"a", "b"}});
  std::vector<Run> runs;
  for (const int64_t n : {2, 5, 9}) {
    const Tensor a = random::normal({n, 4}), b = random::normal({4, n + 1});
    const Scored out = f(a, b);
    runs.push_back({{{"a", a}, {"b", b}}, {{"scores", out.scores}, {"best", out.best}}});
  }
  to.add_function("scored", saved::Entry("scored", f), runs);
}

}  // namespace

void add_model_cases(Cases& to) {
  add_models(to);
  add_control_flow(to);
  add_groups(to);
  add_structures(to);
  add_edges(to);
}

}  // namespace etude::onnx_cases
