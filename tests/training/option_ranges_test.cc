// SPDX-License-Identifier: Apache-2.0
// Every row of every table of option ranges: values outside are refused with the name of the class,
// the option, what was seen, what is needed and the user's line; those at the ends are taken.
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "etude/etude.h"

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
    option = IntList(static_cast<std::int64_t>(value));
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
  drive<optim::OneCycleOptions>("one_cycle", [](const auto& o) { optim::one_cycle(0.1, 10, o); });
}

TEST(OptionRanges, OfLayers) {
  drive<nn::BatchNormOptions>("BatchNorm", [](const auto& o) { nn::BatchNorm(2, o); }, {"axis"});
  drive<nn::Conv2DOptions>("Conv2D", [](const auto& o) { nn::Conv2D({3, 3}, 2, 2, o); });
  drive<nn::PoolOptions>("MaxPool2D", [](const auto& o) { nn::MaxPool2D(2, o); });
  drive<nn::PoolOptions>("AvgPool2D", [](const auto& o) { nn::AvgPool2D(2, o); });
  drive<nn::VarianceScalingOptions>("variance_scaling",
                                    [](const auto& o) { nn::variance_scaling(o); });
}

TEST(OptionRanges, OfLosses) {
  const Tensor p({0.25, 0.5}), e({0.0, 1.0});
  drive<nn::HuberLossOptions>("huber_loss", [&](const auto& o) { nn::huber_loss(p, e, o); });
  drive<nn::SigmoidCrossEntropyOptions>("sigmoid_cross_entropy",
                                        [&](const auto& o) { nn::sigmoid_cross_entropy(p, e, o); });
  drive<nn::FocalLossOptions>("focal_loss", [&](const auto& o) { nn::focal_loss(p, e, o); });
}

TEST(OptionRanges, OfTraining) {
  const data::Samples samples{.inputs = full(0.5, {40, 1}), .labels = full(0.5, {40, 1})};
  drive<data::EpochsOptions>("Epochs", [&](const auto& o) { data::Epochs(samples, o); }, {"seed"});
  drive<nn::FitOptions>("fit", [&](const auto& o) {
    nn::Dense model(1, 1);
    optim::SGD optimizer;
    data::Epochs data(samples, {.batch = 2});
    nn::fit(model, optimizer, data, nn::mean_squared_error, o);
  });
  const nn::Dense model(1, 1);
  const optim::SGD optimizer;
  const data::Epochs data(samples, {.batch = 2});
  drive<io::CheckpointOptions>(
      "checkpoints", [&](const auto& o) { io::checkpoints("none", model, optimizer, data, o); });
}

// A schedule is checked where it is given if it is a number, and else at each update.
TEST(OptionRanges, ARateBelowZeroIsRefusedAtItsUpdate) {
  optim::SGD optimizer({.lr = [](std::int64_t t) { return t < 1 ? 0.1 : -0.1; }});
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
