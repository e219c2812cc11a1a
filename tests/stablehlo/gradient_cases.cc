// SPDX-License-Identifier: Apache-2.0
#include "tests/stablehlo/gradient_cases.h"

#include <string>
#include <vector>

#include "etude/etude.h"
#include "examples/lenet.h"

namespace etude::stablehlo_cases {
namespace {

using onnx_cases::Cases;
using onnx_cases::Run;

struct Mlp {
  nn::Dense hidden{4, 8, {.activation = nn::tanh}}, output{8, 3};
  Tensor operator()(const Tensor& x) const { return nn::softmax(output(hidden(x))); }
};

struct Normed {
  nn::Conv2D conv{{3, 3}, 2, 4, {.padding = "same"}};
  nn::BatchNorm norm{4};
  nn::AvgPool2D pool{2};
  nn::Dense output{4 * 3 * 3, 5};
  Tensor operator()(const Tensor& image) const {
    return output(flatten(pool(nn::relu(norm(conv(image)))), {.start = 1}));
  }
};

struct Sequence {
  nn::Recurrent<nn::LSTMCell> lstm{nn::LSTMCell(4, 6)};
  nn::Dense output{6, 3};
  Tensor operator()(const Tensor& x) const { return output(mean(lstm(x), {.axis = {1}})); }
};

struct Block {
  nn::TransformerEncoderLayer layer{16, 4, {.hidden = 32}};
  nn::Dense output{16, 3};
  Tensor operator()(const Tensor& x) const { return output(mean(layer(x), {.axis = {1}})); }
};

// The loss and the cotangents of all weights, by path.
template <class Model>
struct Result {
  Tensor loss;
  Tangent<Model> slope;
};
template <class Model>
void add_gradient(Cases& to, const std::string& name, const Model& model, const Tensor& x,
                  const Tensor& labels) {
  const auto f = function(
      [](const Model& m, const Tensor& in, const Tensor& wanted) {
        auto [loss, slope] = value_with_gradient(
            [&](const Model& n) { return nn::softmax_cross_entropy(n(in), wanted); }, m);
        return Result<Model>{loss, slope};
      },
      {.name = name, .arg_names = {"model", "x", "labels"}});
  const Result<Model> result = f(model, x, labels);
  Run run{{{"x", x}, {"labels", labels}}, {{"loss", result.loss}}};
  for (const auto& [path, slope] : io::named_tensors(result.slope)) {
    run.results.emplace("slope/" + path, slope);
  }
  to.add_function(name, saved::Entry(name, saved::bind(f, model)), {run});
}

Tensor labels_of(int64_t count, int64_t classes) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(i * 7 % classes));
  return Tensor(out);
}

}  // namespace

void add_gradient_cases(Cases& to) {
  set_seed(11);
  const Mlp mlp;
  const auto scores = function([](const Mlp& m, const Tensor& x) { return m(x); },
                               {.name = "mlp", .arg_names = {"model", "x"}});
  const Tensor x = random::normal({3, 4});
  const std::vector<Run> runs = {{{{"x", x}}, {{"output", scores(mlp, x)}}}};
  to.add_function("mlp", saved::Entry("mlp", saved::bind(scores, mlp)), runs);
  add_gradient(to, "mlp_gradient", mlp, x, labels_of(3, 3));
  add_gradient(to, "lenet_gradient", LeNet(), random::normal({2, 28, 28, 1}), labels_of(2, 10));
  add_gradient(to, "lstm_gradient", Sequence(), random::normal({2, 5, 4}), labels_of(2, 3));
  add_gradient(to, "transformer_gradient", Block(), random::normal({2, 5, 16}), labels_of(2, 3));
  add_gradient(to, "batch_norm_gradient", Normed(), random::normal({2, 6, 6, 2}), labels_of(2, 5));
  const Normed normed;
  const auto infer = function([](const Normed& m, const Tensor& in) { return m(in); },
                              {.name = "batch_norm", .arg_names = {"model", "x"}});
  const Tensor image = random::normal({2, 6, 6, 2});
  to.add_function("batch_norm", saved::Entry("batch_norm", saved::bind(infer, normed)),
                  {{{{"x", image}}, {{"output", infer(normed, image)}}}});
  // A loop with a limit keeps the values of its steps for its gradient.
  const auto loop = function(
      [](const Tensor& start) {
        return gradient(
            [](const Tensor& v) {
              return sum(while_loop([](const Tensor& s) { return sum(s * s) < 50.0F; },
                                    [&](const Tensor& s) { return s * 1.5F + sin(v); }, v,
                                    {.max_iterations = 20}));
            },
            start);
      },
      {.name = "while_gradient", .arg_names = {"x"}});
  const Tensor start({0.5F, -1.0F, 0.25F});
  to.add_function("while_gradient", saved::Entry("loop", loop),
                  {{{{"x", start}}, {{"output", loop(start)}}}});
}

}  // namespace etude::stablehlo_cases
