// SPDX-License-Identifier: Apache-2.0
// Objects by name equal the objects of C++, to the bit, for the same random key.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/has_leaf.h"
#include "etude/base/structure.h"
#include "etude/core/context/ambient.h"
#include "etude/diff/differentiable.h"
#include "etude/kinds/kinds.h"
#include "etude/nn/init.h"
#include "etude/nn/layers/activations.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/layers/recurrent.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/losses/task_losses.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/nn/models/conv_net.h"
#include "etude/nn/models/transformers.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "etude/optim/tensor_rules.h"
#include "etude/optim/transforms.h"

namespace etude::kinds {
namespace {

template <class Layer>
std::vector<Tensor> leaves(const Layer& layer) {
  std::vector<Tensor> out;
  if constexpr (HasLeaf<Layer, Tensor, Marked::kVisit>::value) {
    for_each_leaf<Tensor, Marked::kVisit>(layer, [&](const Tensor& x) { out.push_back(x); });
  }
  return out;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].has_value() != b[i].has_value()) return false;
    if (a[i].has_value() && !same_value(a[i], b[i])) return false;
  }
  return true;
}

// Makes both with one seed; compares all tensors, and the results for x.
template <class Make>
void expect_layer(const std::string& kind, const Arguments& positional, const Options& options,
                  const Tensor& x, const Make& make_typed) {
  SCOPED_TRACE(kind);
  using Layer = std::invoke_result_t<Make>;
  set_seed(7);
  const Made made = make(kind, positional, options);
  const Layer& named = made.template as<Layer>();
  set_seed(7);
  const Layer typed = make_typed();
  EXPECT_TRUE(same(leaves(named), leaves(typed)));
  if (!x.has_value()) return;
  // Dropout draws in the training phase; running statistics would want a gradient that takes them.
  constexpr bool holds_state = etude::internal::holds_state<Layer>();
  const PhaseScope phase(holds_state ? Phase::kInference : Phase::kTraining);
  const auto run = [&](const auto& layer) {
    set_seed(8);
    return layer(x);
  };
  const Tensor expected = run(typed);
  EXPECT_TRUE(same_value(run(named), expected));
  EXPECT_TRUE(same_value(run(made), expected));
}

Tensor rows() { return random::normal({4, 6}, {.dtype = kFloat32}); }
Tensor images() { return random::normal({2, 6, 6, 2}, {.dtype = kFloat32}); }
Tensor sequences() { return random::normal({2, 5, 4}, {.dtype = kFloat32}); }

TEST(KindTypes, LayersOfFeatures) {
  using namespace nn;
  expect_layer("nn.Dense", {6, 3}, {{"activation", "relu"}}, rows(),
               [] { return Dense(6, 3, {.activation = relu}); });
  expect_layer("nn.Dense", {6, 3}, {{"weight_init", "he_normal"}, {"bias", false}}, rows(),
               [] { return Dense(6, 3, {.bias = false, .weight_init = he_normal}); });
  expect_layer("nn.Dropout", {0.5}, {}, rows(), [] { return Dropout(0.5); });
  expect_layer("nn.PReLU", {}, {}, rows(), [] { return PReLU(); });
  expect_layer("nn.PReLU", {6, describe("nn.random_normal", {0, 0.5})}, {}, rows(),
               [] { return PReLU(6, random_normal(0, 0.5)); });
  expect_layer("nn.BatchNorm", {6}, {{"epsilon", 0.1}}, rows(),
               [] { return BatchNorm(6, {.epsilon = 0.1}); });
  expect_layer("nn.LayerNorm", {6}, {{"epsilon", 0.1}}, rows(),
               [] { return LayerNorm(6, {.epsilon = 0.1}); });
  expect_layer("nn.RMSNorm", {6}, {}, rows(), [] { return RMSNorm(6); });
  expect_layer("nn.GroupNorm", {6, 3}, {}, rows(), [] { return GroupNorm(6, 3); });
  expect_layer("nn.MLP", {{6, 5, 2}}, {{"dropout", 0.25}, {"last", "tanh"}}, rows(), [] {
    return MLP({6, 5, 2}, {.last = nn::tanh, .dropout = 0.25});
  });
  expect_layer("nn.Embedding", {5, 3}, {}, {}, [] { return Embedding(5, 3); });
  expect_layer("nn.EmbeddingBag", {5, 3, "max"}, {}, {}, [] { return EmbeddingBag(5, 3, "max"); });
  expect_layer("nn.LoRA", {describe("nn.Dense", {6, 3}), 2}, {}, rows(),
               [] { return LoRA(Dense(6, 3), 2); });
  expect_layer("nn.QuantizedDense", {describe("nn.Dense", {6, 3})}, {}, rows(),
               [] { return QuantizedDense(Dense(6, 3)); });
  expect_layer("nn.WeightNorm", {describe("nn.Dense", {6, 3})}, {}, rows(),
               [] { return WeightNorm<Dense>(Dense(6, 3)); });
}

TEST(KindTypes, LayersOfImages) {
  using namespace nn;
  expect_layer(
      "nn.Conv2D", {{3, 2}, 2, 4},
      {{"padding", "same"}, {"strides", {1, 2}}, {"activation", "relu"}}, images(), [] {
        return Conv2D({3, 2}, 2, 4, {.strides = {1, 2}, .padding = "same", .activation = relu});
      });
  expect_layer("nn.TransposedConv2D", {2, 2, 3}, {{"strides", 2}}, images(),
               [] { return TransposedConv2D(2, 2, 3, {.strides = 2}); });
  expect_layer("nn.DepthwiseConv2D", {3, 2}, {}, images(), [] { return DepthwiseConv2D(3, 2); });
  expect_layer("nn.MaxPool2D", {2}, {{"strides", 1}}, images(),
               [] { return MaxPool2D(2, {.strides = 1}); });
  expect_layer("nn.ResidualBlock", {2, 4}, {{"stride", 2}}, images(),
               [] { return ResidualBlock(2, 4, {.stride = 2}); });
  const Description unit = describe("nn.ConvUnit", {2, 3}, {{"activation", "relu"}});
  expect_layer("nn.ConvBlock", {Values{Value(Values{unit})}}, {}, images(),
               [] { return ConvBlock({{ConvUnit(2, 3, {.activation = relu})}}); });
}

TEST(KindTypes, LayersOfSequences) {
  using namespace nn;
  expect_layer("nn.Recurrent", {describe("nn.LSTMCell", {4, 3}, {{"forget_bias", 1}})},
               {{"last_output", true}}, sequences(), [] {
                 return Recurrent<LSTMCell>(LSTMCell(4, 3, {.forget_bias = 1}),
                                            {.last_output = true});
               });
  expect_layer("nn.Bidirectional", {describe("nn.GRUCell", {4, 3}), describe("nn.GRUCell", {4, 3})},
               {{"merge", "sum"}}, sequences(), [] {
                 GRUCell forward(4, 3);
                 GRUCell backward(4, 3);
                 return Bidirectional<GRUCell>(std::move(forward), std::move(backward), "sum");
               });
  expect_layer("nn.TransformerEncoderLayer", {4, 2}, {{"dropout", 0.1}, {"causal", true}},
               sequences(),
               [] { return TransformerEncoderLayer(4, 2, {.dropout = 0.1, .causal = true}); });
  expect_layer(
      "nn.TextDecoder", {},
      {{"vocabulary", 5}, {"positions", 4}, {"dim", 4}, {"layers", 2}, {"heads", 2}}, {}, [] {
        return TextDecoder({.vocabulary = 5, .positions = 4, .dim = 4, .layers = 2, .heads = 2});
      });
}

using Optimizer = optim::internal::RuleOptimizer;

TEST(KindTypes, Optimizers) {
  using namespace optim;
  std::vector<std::pair<Description, std::unique_ptr<Optimizer>>> all;
  const auto add = [&](const char* kind, const Options& options, auto typed) {
    all.emplace_back(describe(kind, {}, options), std::make_unique<decltype(typed)>(typed));
  };
  add("optim.SGD", {{"momentum", 0.9}, {"nesterov", true}},
      SGD({.momentum = 0.9, .nesterov = true}));
  add("optim.SGD", {{"lr", describe("optim.cosine", {0.1, 5})}}, SGD({.lr = cosine(0.1, 5)}));
  add("optim.Adam", {{"amsgrad", true}}, Adam({.amsgrad = true}));
  add("optim.AdamW", {{"weight_decay", 0.1}}, AdamW({.weight_decay = 0.1}));
  add("optim.AdaMax", {}, AdaMax());
  add("optim.RAdam", {}, RAdam());
  add("optim.NAdam", {{"psi", 0.1}}, NAdam({.psi = 0.1}));
  add("optim.AdaBelief", {}, AdaBelief());
  add("optim.Yogi", {}, Yogi());
  add("optim.ScheduleFreeAdamW", {}, ScheduleFreeAdamW());
  add("optim.RMSProp", {{"centered", true}}, RMSProp({.centered = true}));
  add("optim.AdaGrad", {}, AdaGrad());
  add("optim.AdaDelta", {}, AdaDelta());
  add("optim.FTRL", {{"l1", 0.01}}, FTRL({.l1 = 0.01}));
  add("optim.Lion", {}, Lion());
  add("optim.Rprop", {}, Rprop());
  add("optim.ASGD", {}, ASGD());
  add("optim.ScheduleFreeSGD", {}, ScheduleFreeSGD());
  add("optim.LARS", {}, LARS());
  add("optim.LAMB", {}, LAMB());
  add("optim.Muon", {}, Muon());
  add("optim.Adafactor", {}, Adafactor());
  add("optim.Shampoo", {}, Shampoo());
  const Tensor start = random::normal({3, 4}, {.dtype = kFloat32});
  for (const auto& [description, typed] : all) {
    SCOPED_TRACE(description.to_string());
    const auto named = optimizer_of(make(description));
    Tensor a = start, b = start;
    for (int step = 0; step < 3; ++step) {
      named->update(a, a * a - 0.5F);
      typed->update(b, b * b - 0.5F);
    }
    EXPECT_TRUE(same_value(a, b));
    EXPECT_FALSE(same_value(a, start));
  }
}

TEST(KindTypes, Schedules) {
  using namespace optim;
  const auto expect = [](const Made& made, const Schedule& typed) {
    EXPECT_EQ(made.as<Schedule>(), typed) << made.description().to_string();
  };
  expect(make("optim.piecewise", {{3, 6}, std::vector<double>{0.1, 0.05, 0.01}}),
         piecewise({3, 6}, {0.1, 0.05, 0.01}));
  expect(make("optim.step", {0.1, 0.5, 3}), step(0.1, 0.5, 3));
  expect(make("optim.exponential", {0.1, 0.9}), exponential(0.1, 0.9));
  expect(make("optim.inverse_time", {0.1, 0.9}), inverse_time(0.1, 0.9));
  expect(make("optim.polynomial", {0.1, 0.01, 2, 10}), polynomial(0.1, 0.01, 2, 10));
  expect(make("optim.cosine", {0.1, 10, 0.01}), cosine(0.1, 10, 0.01));
  expect(make("optim.cosine_restarts", {0.1, 10}, {{"mult", 2}}), cosine_restarts(0.1, 10, 2));
  expect(make("optim.linear_warmup", {0.1, 10}), linear_warmup(0.1, 10));
  expect(make("optim.one_cycle", {0.1, 10}, {{"rise", 0.4}}), one_cycle(0.1, 10, {.rise = 0.4}));
  expect(make("optim.inverse_sqrt", {0.1, 10}), inverse_sqrt(0.1, 10));
  const Description wave = describe("optim.cosine", {0.1, 10});
  expect(make("optim.chain", {Values{wave, 0.5}}), chain({cosine(0.1, 10), 0.5}));
  expect(make("optim.join", {Values{wave, 0.5}, {4}}), join({cosine(0.1, 10), 0.5}, {4}));
  expect(make("optim.warmup", {3, wave}), warmup(3, cosine(0.1, 10)));
  const Description segment{"optim.Segment",
                            {{"shape", "cosine"}, {"start", 1}, {"end", 0.5}, {"updates", 4}}};
  expect(make("optim.segments", {Values{segment}}),
         segments({{.shape = "cosine", .start = 1, .end = 0.5, .updates = 4}}));
}

TEST(KindTypes, Losses) {
  const Tensor p = nn::sigmoid(rows()), e = nn::sigmoid(rows()), z = nn::sigmoid(rows());
  const Tensor labels({0, 3, 5, 1});
  const auto expect = [](const Made& made, const Tensor& x, const Tensor& y, const Tensor& typed) {
    EXPECT_TRUE(same_value(made.as<Loss>()(x, y), typed)) << made.description().to_string();
  };
  expect(make("nn.l1_loss"), p, e, nn::l1_loss(p, e));
  expect(make("nn.mean_squared_error", {}, {{"reduction", "sum"}}), p, e,
         nn::mean_squared_error(p, e, {.reduction = "sum"}));
  expect(make("nn.mean_squared_error", {}, {{"weights", z}}), p, e,
         nn::mean_squared_error(p, e, {.weights = z}));
  expect(make("nn.huber_loss", {}, {{"delta", 0.25}}), p, e, nn::huber_loss(p, e, {.delta = 0.25}));
  expect(make("nn.focal_loss", {}, {{"gamma", 1}}), p, e, nn::focal_loss(p, e, {.gamma = 1}));
  expect(make("nn.softmax_cross_entropy", {}, {{"label_smoothing", 0.1}, {"ignore_index", 3}}), p,
         labels, nn::softmax_cross_entropy(p, labels, {.label_smoothing = 0.1, .ignore_index = 3}));
  expect(make("nn.quantile_loss", {}, {{"quantile", 0.9}}), p, e,
         nn::quantile_loss(p, e, {.quantile = 0.9}));
  const Made triplet = make("nn.triplet_margin_loss", {}, {{"margin", 0.5}});
  EXPECT_TRUE(same_value(triplet.as<TripleLoss>()(p, e, z),
                         nn::triplet_margin_loss(p, e, z, {.margin = 0.5})));
}

TEST(KindTypes, Metrics) {
  namespace metrics = nn::metrics;
  const Tensor scores = rows(), labels({0, 3, 5, 1});
  const auto expect = [&](const Made& made, nn::Metric typed) {
    nn::Metric named = made.as<nn::Metric>();
    named.update(scores, labels);
    typed.update(scores, labels);
    EXPECT_EQ(named.name(), typed.name());
    EXPECT_EQ(named.results(), typed.results()) << made.description().to_string();
  };
  expect(make("nn.metrics.accuracy"), metrics::accuracy());
  expect(make("nn.metrics.top_k", {2}), metrics::top_k(2));
  expect(make("nn.metrics.f1", {}, {{"average", "none"}}), metrics::f1({.average = "none"}));
  expect(make("nn.metrics.perplexity", {}, {{"ignore_index", 3}}), metrics::perplexity(3));
  expect(make("nn.metrics.perplexity"), metrics::perplexity());
}

TEST(KindTypes, InitialisersActivationsTransforms) {
  const auto expect_init = [](const Made& made, const nn::Initializer& typed) {
    set_seed(3);
    const Tensor named = made.as<nn::Initializer>()(Shape({3, 4}));
    set_seed(3);
    EXPECT_TRUE(same_value(named, typed(Shape({3, 4})))) << made.description().to_string();
  };
  expect_init(make("nn.lecun_uniform"), nn::lecun_uniform);
  expect_init(make("nn.constant", {2}), nn::constant(2));
  expect_init(make("nn.random_uniform", {0}), nn::random_uniform(0));
  expect_init(make("nn.truncated_normal", {}, {{"stddev", 2}}), nn::truncated_normal(0, 2));
  expect_init(make("nn.orthogonal"), nn::orthogonal());
  expect_init(make("nn.variance_scaling", {}, {{"mode", "fan_avg"}, {"scale", 2}}),
              nn::variance_scaling({.scale = 2, .mode = "fan_avg"}));
  const Tensor x = rows();
  EXPECT_TRUE(same_value(make("nn.swish")(x), nn::swish(x)));
  EXPECT_TRUE(same_value(make("nn.elu", {}, {{"alpha", 2}})(x), nn::elu(x, {.alpha = 2})));
  EXPECT_TRUE(same_value(make("nn.softmax", {}, {{"axis", 0}})(x), nn::softmax(x, {.axis = 0})));
  // A staged function takes both for one function.
  EXPECT_EQ(make("nn.relu").as<nn::Activation>().host_key(), nn::Activation(nn::relu).host_key());
  EXPECT_EQ(make("optim.lookahead", {3}).as<optim::Transform>(), optim::lookahead(3));
  EXPECT_EQ(make("optim.loss_scaling", {}, {{"every", 10}}).as<optim::Transform>(),
            optim::loss_scaling({.every = 10}));
}

}  // namespace
}  // namespace etude::kinds
