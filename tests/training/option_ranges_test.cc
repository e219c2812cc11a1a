// SPDX-License-Identifier: Apache-2.0
// Every row of every table of option ranges: values outside are refused, with the class, the
// option, the value, the range and the user's line; values at the ends are accepted.
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

template <class O>
using Give = std::function<void(const O&)>;

template <class T>
inline constexpr bool kIsNumber = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) ||
                                  std::is_same_v<T, optim::Schedule> || std::is_same_v<T, IntList>;

template <class T>
void set(T& option, double value) {
  if constexpr (std::is_arithmetic_v<T>) {
    option = static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, IntList>) {
    option = IntList(static_cast<int64_t>(value));
  } else {
    option = T(value);
  }
}

template <class O>
void expect_refused(const std::string& owner, std::string_view option, const Give<O>& give,
                    const O& options, double value) {
  std::ostringstream text;
  text << owner << ": " << option << " is " << value << ", but must be ";
  try {
    give(options);
    ADD_FAILURE() << "taken in silence: " << text.str();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()).substr(0, text.str().size()), text.str());
    EXPECT_STREQ(error.where().file, __FILE__) << text.str();
  }
}

template <class O, class T>
void drive_row(const std::string& owner, std::string_view name, T O::*option, const Range& range,
               const Give<O>& give) {
  const auto with = [&](double value) {
    O options;
    set(options.*option, value);
    return options;
  };
  const auto [low, high, has_low, has_high] = range;
  ASSERT_TRUE(std::isfinite(low)) << owner << " " << name;
  for (const double outside : {has_low ? low - 1 : low, has_high ? high + 1 : high}) {
    if (std::isfinite(outside)) expect_refused(owner, name, give, with(outside), outside);
  }
  if (std::is_floating_point_v<T>) {
    EXPECT_THROW(give(with(NAN)), Error) << owner << " " << name << " of NaN";
    EXPECT_THROW(give(with(INFINITY)), Error) << owner << " " << name << " of infinity";
  }
  const double middle = std::isfinite(high) ? 0.5 * (low + high) : low + 1;
  for (const double inside : {has_low ? low : middle, middle, has_high ? high : middle}) {
    EXPECT_NO_THROW(give(with(inside))) << owner << " " << name << " is " << inside;
  }
}

// `unlimited` are numbers that may be anything.
template <class O>
void drive(const std::string& owner, const Give<O>& give,
           const std::set<std::string_view>& unlimited = {}) {
  std::set<std::string_view> rows;
  O::ranges([&](std::string_view name, auto option, const Range& range) {
    EXPECT_TRUE(rows.insert(name).second) << owner << " has " << name << " twice";
    drive_row(owner, name, option, range, give);
  });
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    O options;
    const auto fields = internal::fields(options);
    (
        [&] {
          const std::string_view name = internal::field_name<O, I>;
          using T = std::remove_cvref_t<std::tuple_element_t<I, decltype(fields)>>;
          EXPECT_EQ(rows.contains(name), kIsNumber<T> && !unlimited.contains(name))
              << owner << "'s option " << name << " and its table";
        }(),
        ...);
  }
  (std::make_index_sequence<internal::field_count<O>()>());
}

TEST(OptionRanges, OfOptimisers) {
  drive<optim::SGDOptions>("SGD", [](const auto& o) { optim::SGD{o}; });
  drive<optim::AdamOptions>("Adam", [](const auto& o) { optim::Adam{o}; });
  drive<optim::AdamWOptions>("AdamW", [](const auto& o) { optim::AdamW{o}; });
  drive<optim::RMSPropOptions>("RMSProp", [](const auto& o) { optim::RMSProp{o}; });
  drive<optim::AdaGradOptions>("AdaGrad", [](const auto& o) { optim::AdaGrad{o}; });
  drive<optim::AdaDeltaOptions>("AdaDelta", [](const auto& o) { optim::AdaDelta{o}; });
  drive<optim::AdaMaxOptions>("AdaMax", [](const auto& o) { optim::AdaMax{o}; });
  drive<optim::RAdamOptions>("RAdam", [](const auto& o) { optim::RAdam{o}; });
  drive<optim::NAdamOptions>("NAdam", [](const auto& o) { optim::NAdam{o}; });
  drive<optim::LionOptions>("Lion", [](const auto& o) { optim::Lion{o}; });
  drive<optim::LARSOptions>("LARS", [](const auto& o) { optim::LARS{o}; });
  drive<optim::LAMBOptions>("LAMB", [](const auto& o) { optim::LAMB{o}; });
  drive<optim::MuonOptions>("Muon", [](const auto& o) { optim::Muon{o}; });
  drive<optim::AdafactorOptions>("Adafactor", [](const auto& o) { optim::Adafactor{o}; });
  drive<optim::ShampooOptions>("Shampoo", [](const auto& o) { optim::Shampoo{o}; });
  drive<optim::AdaBeliefOptions>("AdaBelief", [](const auto& o) { optim::AdaBelief{o}; });
  drive<optim::YogiOptions>("Yogi", [](const auto& o) { optim::Yogi{o}; });
  drive<optim::RpropOptions>("Rprop", [](const auto& o) { optim::Rprop{o}; });
  drive<optim::FTRLOptions>("FTRL", [](const auto& o) { optim::FTRL{o}; });
  drive<optim::ASGDOptions>("ASGD", [](const auto& o) { optim::ASGD{o}; });
  drive<optim::ScheduleFreeSGDOptions>("ScheduleFreeSGD",
                                       [](const auto& o) { optim::ScheduleFreeSGD{o}; });
  drive<optim::ScheduleFreeAdamWOptions>("ScheduleFreeAdamW",
                                         [](const auto& o) { optim::ScheduleFreeAdamW{o}; });
  drive<optim::LossScalingOptions>("loss_scaling", [](const auto& o) { optim::loss_scaling(o); });
  drive<optim::LBFGSOptions>("lbfgs", [](const auto& o) {
    Tensor w({1.0});
    optim::lbfgs(
        w, [](const Tensor& x) { return sum(square(x)); }, o);
  });
  drive<optim::OneCycleOptions>("one_cycle", [](const auto& o) { optim::one_cycle(0.1, 10, o); });
}

TEST(OptionRanges, OfLayers) {
  drive<nn::BatchNormOptions>("BatchNorm", [](const auto& o) { nn::BatchNorm(2, o); }, {"axis"});
  drive<nn::ConvOptions>("Conv2D", [](const auto& o) { nn::Conv2D({3, 3}, 2, 2, o); });
  drive<nn::PoolOptions>("MaxPool2D", [](const auto& o) { nn::MaxPool2D(2, o); });
  drive<nn::PoolOptions>("AvgPool2D", [](const auto& o) { nn::AvgPool2D(2, o); });
  drive<nn::ConvOptions>("Conv1D", [](const auto& o) { nn::Conv1D(3, 2, 2, o); });
  drive<nn::ConvOptions>("Conv3D", [](const auto& o) { nn::Conv3D(3, 2, 2, o); });
  drive<nn::TransposedConvOptions>("TransposedConv2D",
                                   [](const auto& o) { nn::TransposedConv2D(3, 2, 2, o); });
  drive<nn::SeparableConvOptions>("SeparableConv2D",
                                  [](const auto& o) { nn::SeparableConv2D(3, 2, 2, o); });
  drive<nn::LocalOptions>("LocallyConnected1D",
                          [](const auto& o) { nn::LocallyConnected1D(4, 2, 2, 2, o); });
  drive<nn::MorphologyOptions>("Dilation2D", [](const auto& o) {
    nn::Dilation2D(zeros({2, 2, 1}), o);
  });
  drive<nn::MorphologyOptions>("Erosion2D", [](const auto& o) {
    nn::Erosion2D(zeros({2, 2, 1}), o);
  });
  drive<nn::AdaptiveSoftmaxOptions>("AdaptiveSoftmax",
                                    [](const auto& o) { nn::AdaptiveSoftmax(4, 6, {3}, o); });
  drive<nn::LayerNormOptions>("LayerNorm", [](const auto& o) { nn::LayerNorm(2, o); }, {"axes"});
  drive<nn::GroupNormOptions>("GroupNorm", [](const auto& o) { nn::GroupNorm(2, 2, o); }, {"axis"});
  drive<nn::GroupNormOptions>("InstanceNorm", [](const auto& o) { nn::InstanceNorm(2, o); },
                              {"axis"});
  drive<nn::AttentionOptions>("MultiHeadAttention",
                              [](const auto& o) { nn::MultiHeadAttention(4, 2, o); });
  drive<nn::TransformerOptions>("TransformerEncoderLayer",
                                [](const auto& o) { nn::TransformerEncoderLayer(4, 2, o); });
  drive<nn::TransformerOptions>("TransformerDecoderLayer",
                                [](const auto& o) { nn::TransformerDecoderLayer(4, 2, o); });
  drive<nn::ResidualOptions>("ResidualBlock", [](const auto& o) { nn::ResidualBlock(2, 2, o); });
  drive<nn::MLPOptions>("MLP", [](const auto& o) { nn::MLP({2, 2, 2}, o); });
  drive<nn::InvertedResidualOptions>("InvertedResidual",
                                     [](const auto& o) { nn::InvertedResidual(2, 2, o); });
  drive<nn::ConvUnitOptions>("ConvUnit", [](const auto& o) { nn::ConvUnit(2, 2, o); });
  drive<nn::ConvNetOptions>("ConvNet", [](const auto& o) { nn::ConvNet({}, {}, o); });
  drive<nn::models::ImageOptions>("resnet_cifar",
                                  [](const auto& o) { nn::models::resnet_cifar(8, o); });
  // Sizes are as small as possible, since the defaults are the sizes of published models.
  const auto small = [](auto o) {
    const decltype(o) usual;
    for (const auto size : {&decltype(o)::vocabulary, &decltype(o)::positions, &decltype(o)::layers,
                            &decltype(o)::heads}) {
      if (o.*size == usual.*size) o.*size = 1;
    }
    if (o.dim == usual.dim) o.dim = 4;
    return o;
  };
  drive<nn::TextEncoderOptions>("TextEncoder", [&](const auto& o) { nn::TextEncoder(small(o)); });
  drive<nn::TextDecoderOptions>("TextDecoder", [&](const auto& o) { nn::TextDecoder(small(o)); });
  drive<nn::VarianceScalingOptions>("variance_scaling",
                                    [](const auto& o) { nn::variance_scaling(o); });
}

TEST(OptionRanges, OfLosses) {
  const Tensor p({0.25, 0.5}), e({0.0, 1.0});
  drive<nn::HuberLossOptions>("huber_loss", [&](const auto& o) { nn::huber_loss(p, e, o); });
  drive<nn::SigmoidCrossEntropyOptions>("sigmoid_cross_entropy",
                                        [&](const auto& o) { nn::sigmoid_cross_entropy(p, e, o); });
  drive<nn::FocalLossOptions>("focal_loss", [&](const auto& o) { nn::focal_loss(p, e, o); });
  const Tensor rows({{0.25, 0.5}}), ids({1}), signs({1.0});
  drive<nn::MarginOptions>("triplet_margin_loss",
                           [&](const auto& o) { nn::triplet_margin_loss(rows, rows, rows, o); });
  drive<nn::MarginOptions>("contrastive_loss",
                           [&](const auto& o) { nn::contrastive_loss(rows, rows, signs, o); });
  drive<nn::MarginOptions>("multi_margin_loss",
                           [&](const auto& o) { nn::multi_margin_loss(rows, ids, o); });
  drive<nn::ZeroMarginOptions>("cosine_embedding_loss", [&](const auto& o) {
    nn::cosine_embedding_loss(rows, rows, signs, o);
  });
  drive<nn::ZeroMarginOptions>("margin_ranking_loss",
                               [&](const auto& o) { nn::margin_ranking_loss(p, e, signs, o); });
  drive<nn::InfoNceOptions>("info_nce_loss",
                            [&](const auto& o) { nn::info_nce_loss(rows, rows, o); });
  drive<nn::GaussianNllOptions>("gaussian_nll_loss",
                                [&](const auto& o) { nn::gaussian_nll_loss(p, e, p, o); });
  drive<nn::QuantileOptions>("quantile_loss", [&](const auto& o) { nn::quantile_loss(p, e, o); });
  drive<nn::SmoothL1Options>("smooth_l1_loss", [&](const auto& o) { nn::smooth_l1_loss(p, e, o); });
  drive<nn::OverlapOptions>("dice_loss", [&](const auto& o) { nn::dice_loss(rows, rows, o); });
  drive<nn::OverlapOptions>("iou_loss", [&](const auto& o) { nn::iou_loss(rows, rows, o); });
  drive<nn::CtcLossOptions>("ctc_loss", [&](const auto& o) {
    nn::ctc_loss(zeros({3, 5}), ids, o);
  });
}

TEST(OptionRanges, OfTraining) {
  const data::Samples samples{.inputs = full({40, 1}, 0.5), .labels = full({40, 1}, 0.5)};
  drive<data::LoaderOptions>("Loader", [&](const auto& o) { data::Loader(samples, o); },
                             {"seed", "rank", "ranks"});
  drive<nn::FitOptions>("fit", [&](const auto& o) {
    nn::Dense model(1, 1);
    optim::SGD optimizer;
    data::Loader data(samples, {.batch = 2});
    nn::fit(model, optimizer, data, nn::mean_squared_error, o);
  });
  drive<nn::EarlyStoppingOptions>("early_stopping", [](const auto& o) { nn::early_stopping(o); });
  drive<nn::Monitored>("keep_best", [](const auto& o) {
    nn::Dense model(1, 1);
    nn::keep_best(model, o);
  });
  drive<nn::PlateauOptions>("reduce_on_plateau", [](const auto& o) {
    optim::SGD optimizer;
    nn::reduce_on_plateau(optimizer, o);
  });
  drive<nn::ProfileStepsOptions>("profile_steps",
                                 [](const auto& o) { nn::profile_steps("none", o); });
  drive<nn::TensorboardOptions>("tensorboard", [](const auto& o) { nn::tensorboard("none", o); });
  const nn::Dense model(1, 1);
  drive<nn::FindRateOptions>("find_rate", [&](const auto& o) {
    data::Loader data(samples, {.batch = 2});
    nn::find_rate(model, optim::SGD(), data, nn::mean_squared_error, o);
  });
  const optim::SGD optimizer;
  const data::Loader data(samples, {.batch = 2});
  drive<io::CheckpointOptions>(
      "checkpoints", [&](const auto& o) { io::checkpoints("none", model, optimizer, data, o); });
}

TEST(OptionRanges, OfDataAndFiles) {
  const auto numbers = data::count_up(3);
  drive<data::MapOptions>("Dataset::map",
                          [&](const auto& o) { numbers.map([](int64_t i) { return i; }, o); },
                          {"seed", "rank", "ranks"});
  const auto size = [](const Tensor& x) { return x.size(); };
  drive<data::BucketOptions>("BucketedLoader",
                             [&](const auto& o) {
                               data::BucketedLoader(std::vector<Tensor>{Tensor({1.0})}, size,
                                                    {.batch = 1}, o);
                             },
                             {"value"});
  io::Checkpoint checkpoint;
  drive<io::CheckpointManagerOptions>(
      "CheckpointManager", [&](const auto& o) { io::CheckpointManager(checkpoint, "none", o); });
  drive<ReadLimits>("set_read_limits", [](const auto& o) { set_read_limits(set_read_limits(o)); });
}

// A schedule is checked where it is given if it is a number, and else at each update.
TEST(OptionRanges, OfPictures) {
  drive<io::ImageGridOptions>("image_grid",
                              [](const auto& o) {
                                io::image_grid(zeros({2, 2, 2}), o);
                              },
                              {"background"});
  const internal::TempFolder folder;
  const auto file = folder.path() / "plot.svg";
  drive<io::PlotOptions>("write_svg", [&](const auto& o) { io::write_svg(file.string(), {}, o); });
}

TEST(OptionRanges, ARateBelowZeroIsRefusedAtItsUpdate) {
  optim::SGD optimizer({.lr = [](int64_t t) { return t < 1 ? 0.1 : -0.1; }});
  Tensor w({1.0}), g({1.0});
  optimizer.update(w, g);
  try {
    optimizer.update(w, g);
    ADD_FAILURE() << "taken in silence";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("SGD: lr is -0.1, but must be at least 0\n  at "), 0U)
        << error.what();
    EXPECT_STREQ(error.where().file, __FILE__);
  }
  EXPECT_EQ(optimizer.updates(), 1);
}

// The same for an option that is changed between updates; nothing has moved then.
TEST(OptionRanges, AChangedOptionIsRefusedAtTheNextUpdate) {
  optim::SGD optimizer({.momentum = 0.9});
  Tensor w({1.0}), g({1.0});
  optimizer.update(w, g);
  const float before = w.item<float>();
  optimizer.options().momentum = 1.5;
  try {
    optimizer.update(w, g);
    ADD_FAILURE() << "taken in silence";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("SGD: momentum is 1.5, but must be in [0, 1)\n  at "),
              0U)
        << error.what();
    EXPECT_STREQ(error.where().file, __FILE__);
  }
  EXPECT_EQ(w.item<float>(), before);
  EXPECT_EQ(optimizer.updates(), 1);
  optimizer.options().momentum = 0.5;
  optimizer.update(w, g);
  EXPECT_LT(w.item<float>(), before);
}

}  // namespace
}  // namespace etude
