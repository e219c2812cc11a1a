// SPDX-License-Identifier: Apache-2.0
// Objects by name: found, completed, made, compared; and every refusal with its text and line.
#include "etude/kinds/kinds.h"

#include <string>

#include <gtest/gtest.h>

#include "etude/core/context/ambient.h"
#include "etude/nn/erased_layer.h"
#include "etude/nn/init.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/parts.h"
#include "etude/ops.h"
#include "etude/optim/schedule.h"
#include "etude/optim/sgd.h"

namespace etude::kinds {
namespace {

// Runs f, which throws an error of this file with this text.
template <class F>
void expect_error(ErrorCode code, const std::string& text, const F& f) {
  try {
    f();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    EXPECT_STREQ(error.where().file, __FILE__) << error.what();
  }
}

TEST(Kinds, ALayerIsMadeByName) {
  const Made made = make("nn.Dense", {3, 4}, {{"activation", "relu"}, {"bias", false}});
  EXPECT_EQ(made.kind().group, Group::kLayer);
  const nn::Dense dense = made.as<nn::Dense>();
  EXPECT_EQ(dense.weight.shape(), Shape({3, 4}));
  EXPECT_FALSE(dense.bias.has_value());
  const Tensor x = zeros({2, 3}) - 1.0F;
  EXPECT_EQ(made(x).to_vector<float>(), dense(x).to_vector<float>());
  EXPECT_EQ(made.description().at("activation"), Value(Description{"nn.relu", {}}));
  EXPECT_EQ(made.description().to_string(),
            "nn.Dense(in=3, out=4, activation=nn.relu, bias=false)");
}

TEST(Kinds, PositionalValuesMayBeNamed) {
  EXPECT_EQ(describe("nn.Dense", {3}, {{"out", 4}}), describe("nn.Dense", {3, 4}));
  EXPECT_EQ(describe("nn.Dense", {}, {{"out", 4}, {"in", 3}}), describe("nn.Dense", {3, 4}));
}

TEST(Kinds, ADescriptionHoldsDefaults) {
  const Description d = describe("optim.SGD", {}, {{"lr", 1}});
  EXPECT_EQ(d.at("lr"), Value(1.0));
  EXPECT_EQ(d.at("momentum"), Value(0.0));
  EXPECT_EQ(d, describe("optim.SGD", {}, {{"lr", 1.0}, {"momentum", 0}}));
  EXPECT_FALSE(d == describe("optim.SGD", {}, {{"lr", 0.5}}));
  EXPECT_EQ(d.to_string(), "optim.SGD(lr=1.0)");
}

TEST(Kinds, ObjectsAreValues) {
  const Made dense = make("nn.Dense", {3, 4});
  const Made lora = make("nn.LoRA", {dense, 2});
  // The very layer, with its weights, and not another of its description.
  EXPECT_EQ(lora.as<nn::LoRA>().base.value.weight.to_vector<float>(),
            dense.as<nn::Dense>().weight.to_vector<float>());
  EXPECT_EQ(lora.description(), describe("nn.LoRA", {dense.description(), 2}));
  const Made sgd = make("optim.SGD", {}, {{"lr", describe("optim.cosine", {0.1, 10})}});
  EXPECT_EQ(sgd.as<optim::SGD>().options().lr, optim::cosine(0.1, 10));
  const Made named = make("nn.Dense", {3, 4}, {{"weight_init", "ones"}});
  EXPECT_EQ(named.as<nn::Dense>().weight.to_vector<float>(), std::vector<float>(12, 1.0F));
}

TEST(Kinds, AFunctionOfTheProgramIsAValueWithoutADescription) {
  const Made twice = Made::host(nn::Activation([](const Tensor& x) { return x + x; }));
  const Made layer = make("nn.Dense", {1, 1}, {{"activation", twice}, {"weight_init", "ones"}});
  EXPECT_EQ(layer(ones({1, 1})).item<float>(), 2.0F);
  EXPECT_EQ(layer.description(), layer.description());
  EXPECT_FALSE(twice.is_described());
  expect_error(ErrorCode::kFailedPrecondition, "has no description. Make it by kinds::make",
               [&] { static_cast<void>(twice.description()); });
  expect_error(ErrorCode::kFailedPrecondition,
               "kinds::to_json: 'activation' holds an object of the program, such as a function",
               [&] { to_json(layer.description()); });
}

TEST(Kinds, ALayerIsUsedWithoutItsClass) {
  const Made made = make("nn.Dense", {3, 4}, {{"activation", "relu"}});
  const nn::Layer layer = layer_of(made);
  EXPECT_EQ(layer.form()->to_string(), "{weight: tensor, bias: tensor}");
  const Tensor x = ones({2, 3});
  EXPECT_TRUE(same_value(layer(x), made(x)));
  EXPECT_TRUE(same_value(layer.tensor("weight"), made.as<nn::Dense>().weight));
  expect_error(ErrorCode::kInvalidArgument, "nn.relu is no layer that is called with one tensor",
               [] { layer_of(make("nn.relu")); });
}

// The weights of `layer` and of `other`, in order.
void expect_equal(const nn::Layer& layer, const auto& other, const Tensor& x) {
  EXPECT_EQ(layer.form()->to_string(), nn::Layer(other).form()->to_string());
  EXPECT_TRUE(same_value(layer(x), other(x)));
}

TEST(Kinds, SomeLayersHoldAnyLayer) {
  const Description dense = describe("nn.Dense", {3, 3}), norm = describe("nn.BatchNorm", {3});
  const Description list = describe("nn.Sequential", {Values{dense, norm, dense}});
  const Tensor x = ones({2, 5, 3}) * 0.5F, row = x.at(0);
  const auto made_after = [](const Description& what) {
    set_seed(7);
    return layer_of(make(what));
  };
  const auto chain = [] {
    return nn::Sequential{nn::Dense(3, 3), nn::BatchNorm(3), nn::Dense(3, 3)};
  };
  set_seed(7);
  const auto wanted = chain();
  expect_equal(made_after(list), wanted, row);
  expect_equal(made_after(describe("nn.TimeDistributed", {list})), nn::TimeDistributed(wanted), x);
  const nn::Layer mixed = made_after(describe("nn.Precision", {list}));
  expect_equal(mixed, nn::Precision(wanted), row);
  EXPECT_EQ(mixed(row).dtype(), kFloat32);
  // State keeps its precision, also inside a layer without a class.
  const nn::Layer low = made_after(describe(
      "nn.Precision", {list, describe("nn.PrecisionPolicy", {}, {{"parameter", kBFloat16}})}));
  EXPECT_EQ(low.tensor("layer/layers/0/weight").dtype(), kBFloat16);
  EXPECT_EQ(from_json(to_json(list)), list);
  const Description nested =
      describe("nn.Sequential", {Values{list, describe("nn.TimeDistributed", {dense})}});
  EXPECT_EQ(layer_of(make(nested))(x).shape(), x.shape());
  expect_error(ErrorCode::kInvalidArgument,
               "nn.Sequential: 'layers' is nn.relu (activation), but must be of type layer",
               [] { make("nn.Sequential", {Values{"nn.relu"}}); });
  expect_error(ErrorCode::kInvalidArgument, "is no layer that is called with one tensor", [] {
    make("nn.TimeDistributed", {describe("nn.models.DLRM", {{3, 4}, 2, {5, 2}, {4, 1}})});
  });
}

TEST(Kinds, PublishedModels) {
  const Options small = {{"classes", 3}, {"width", 0.1}};
  set_seed(7);
  const Made made = make("nn.models.resnet", {18}, small);
  set_seed(7);
  const nn::ConvNet wanted = nn::models::resnet(18, {.classes = 3, .width = 0.1});
  const Tensor x = ones({1, 32, 32, 3});
  EXPECT_TRUE(same_value(made(x), wanted(x)));
  EXPECT_EQ(make("nn.models.resnet_cifar", {8}, {{"width", 0.1}})(x).shape(), Shape({1, 10}));
  expect_error(ErrorCode::kInvalidArgument, "resnet", [] { make("nn.models.resnet", {17}); });
  expect_error(ErrorCode::kInvalidArgument, "nn.models.vgg: classes is 0, but must be at least 1",
               [] {
                 make("nn.models.vgg", {11}, {{"classes", 0}});
               });
  const optim::LBFGSOptions options =
      make("optim.LBFGSOptions", {}, {{"history", 5}}).as<optim::LBFGSOptions>();
  EXPECT_EQ(options.history, 5);
  EXPECT_EQ(options.iterations, optim::LBFGSOptions().iterations);
}

TEST(Kinds, AnOptimizerIsUsedWithoutItsClass) {
  const Made made = make("optim.SGD", {}, {{"lr", 0.5}});
  const auto optimizer = optimizer_of(made);
  Tensor w({1.0F}), g({1.0F});
  optimizer->update(w, g);
  EXPECT_EQ(w.item<float>(), 0.5F);
  // The made one stays without state.
  EXPECT_EQ(made.as<optim::SGD>().updates(), 0);
  expect_error(ErrorCode::kInvalidArgument, "nn.relu is no optimizer",
               [] { optimizer_of(make("nn.relu")); });
}

TEST(Kinds, ALossHoldsItsOptions) {
  const Tensor p({1.0F, 3.0F}), e({0.0F, 0.0F});
  const Made made = make("nn.huber_loss", {}, {{"reduction", "mean"}, {"delta", 0.5}});
  const Loss& loss = made.as<Loss>();
  EXPECT_EQ(loss(p, e).item<float>(),
            nn::huber_loss(p, e, {.reduction = "mean", .delta = 0.5}).item<float>());
  expect_error(ErrorCode::kInvalidArgument,
               "huber_loss: operand 'predicted' is float32[2] and operand 'expected' is float32[3]",
               [&] { loss(p, zeros({3})); });
}

TEST(Kinds, NamesThatAreUnknown) {
  expect_error(ErrorCode::kNotFound,
               "kinds: there is no kind 'nn.Danse'. Similar: nn.Dense. kinds::all() lists them",
               [] {
                 make("nn.Danse", {3, 4});
               });
  expect_error(ErrorCode::kNotFound, "there is no kind 'Dense'. Similar: nn.Dense", [] {
    make("Dense", {3, 4});
  });
  expect_error(
      ErrorCode::kInvalidArgument,
      "nn.Dense: there is no option 'activaton'. Similar: activation. Parameters: in, out, "
      "activation, bias, weight_init, bias_init",
      [] {
        make("nn.Dense", {3, 4}, {{"activaton", "relu"}});
      });
  expect_error(ErrorCode::kNotFound,
               "nn.Dense: 'activation' is \"relo\", which is no activation or none. Similar: "
               "nn.relu",
               [] {
                 make("nn.Dense", {3, 4}, {{"activation", "relo"}});
               });
  expect_error(
      ErrorCode::kInvalidArgument,
      "nn.Dense: 'activation' is nn.zeros (initializer), but must be of type activation or "
      "none",
      [] {
        make("nn.Dense", {3, 4}, {{"activation", "nn.zeros"}});
      });
  expect_error(ErrorCode::kInvalidArgument, "nn.Dense: there is no parameter 'on'. Similar: in",
               [] {
                 describe("nn.Dense", {3, 4}).at("on");
               });
}

TEST(Kinds, ValuesThatAreMissingOrTooMany) {
  expect_error(ErrorCode::kInvalidArgument,
               "nn.Dense: 'out' is missing, of type int. Parameters: in, out, activation",
               [] { make("nn.Dense", {3}); });
  expect_error(ErrorCode::kInvalidArgument,
               "nn.Dense: 3 positional values are given, but there are 2 (in, out). Give options "
               "by name",
               [] {
                 make("nn.Dense", {3, 4, 5});
               });
  expect_error(ErrorCode::kInvalidArgument, "nn.Dense: 'in' is given twice", [] {
    make("nn.Dense", {3, 4}, {{"in", 3}});
  });
}

TEST(Kinds, ValuesOfAnotherType) {
  expect_error(ErrorCode::kInvalidArgument, "nn.Dense: 'bias' is 3 (int), but must be of type bool",
               [] {
                 make("nn.Dense", {3, 4}, {{"bias", 3}});
               });
  expect_error(ErrorCode::kInvalidArgument,
               "nn.Dense: 'in' is 3.0 (float), but must be of type int", [] {
                 make("nn.Dense", {3.0, 4});
               });
  expect_error(ErrorCode::kInvalidArgument,
               "optim.SGD: 'lr' is [1] (list), but must be of type number or schedule", [] {
                 make("optim.SGD", {}, {{"lr", Values{1}}});
               });
  expect_error(ErrorCode::kInvalidArgument,
               "nn.MLP: 'sizes' is \"3, 4\" (text), but must be of type int or list of int",
               [] { make("nn.MLP", {"3, 4"}); });
  expect_error(ErrorCode::kInvalidArgument,
               "nn.LoRA: 'base_layer' is nn.GRUCell (cell), but must be of type nn.Dense", [] {
                 make("nn.LoRA", {Description{"nn.GRUCell", {{"input", 1}, {"hidden", 1}}}, 2});
               });
  expect_error(ErrorCode::kInvalidArgument, "the object is nn.relu, a etude::nn::Activation",
               [] { static_cast<void>(make("nn.relu").as<nn::Dense>()); });
  expect_error(ErrorCode::kInvalidArgument, "optim.SGD is not called with one tensor",
               [] { make("optim.SGD")(zeros({1})); });
}

TEST(Kinds, NumbersOutOfTheirRange) {
  expect_error(ErrorCode::kInvalidArgument, "optim.SGD: lr is -1, but must be at least 0", [] {
    make("optim.SGD", {}, {{"lr", -1}});
  });
  expect_error(ErrorCode::kInvalidArgument,
               "nn.MultiHeadAttention: dropout is 1, but must be in [0, 1)", [] {
                 make("nn.MultiHeadAttention", {4, 2}, {{"dropout", 1}});
               });
  expect_error(ErrorCode::kInvalidArgument, "nn.Conv2D: strides is 0, but must be at least 1", [] {
    make("nn.Conv2D", {3, 1, 1}, {{"strides", {1, 0}}});
  });
  // Of an object inside: its kind is named.
  expect_error(ErrorCode::kInvalidArgument, "nn.Monitored: min_delta is -1, but must be at least 0",
               [] {
                 make("nn.early_stopping", {},
                      {{"monitor", Description{"nn.Monitored", {{"min_delta", -1}}}}});
               });
  // Of a constructor, which has no table for it.
  expect_error(ErrorCode::kInvalidArgument, "Dense", [] { make("nn.Dense", {0, 4}); });
}

TEST(Kinds, DescriptionsThatContainThemselvesManyTimes) {
  Description deep{"nn.Lambda", {{"function", "relu"}}};
  Value schedule = 0.1;
  for (int i = 0; i < 70; ++i)
    schedule = Description{"optim.warmup", {{"T", 1}, {"then", schedule}}};
  expect_error(ErrorCode::kInvalidArgument, "objects are nested more than 64 deep", [&] {
    describe("optim.SGD", {}, {{"lr", schedule}});
  });
}

TEST(Kinds, TheTable) {
  EXPECT_GT(all().size(), 200U);
  EXPECT_EQ(find("nn.Nothing"), nullptr);
  EXPECT_EQ(at("nn.PReLU").signature(),
            "nn.PReLU(features: int = 1, slope_init: initializer = nn.constant(value=0.25))");
  EXPECT_EQ(at("nn.MaxPool2D").signature(),
            "nn.MaxPool2D(window: int or list of int, *, strides: int or list of int or "
            "none = none, padding: text = \"valid\")");
  const Parameter& momentum = *at("optim.SGD").find("momentum");
  EXPECT_EQ(momentum.range_text(), "in [0, 1)");
  EXPECT_EQ(at("optim.SGD").find("nesterov")->range_text(), "");
  EXPECT_EQ(at("nn.Conv2D").find("padding")->doc, "or \"same\"");
  EXPECT_EQ(at("nn.Recurrent").find("cell")->type.to_string(),
            "nn.ConvLSTM2DCell or nn.GRUCell or nn.LSTMCell or nn.SimpleRNNCell");
}

}  // namespace
}  // namespace etude::kinds
