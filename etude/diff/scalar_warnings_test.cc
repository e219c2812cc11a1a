// SPDX-License-Identifier: Apache-2.0
// Warnings of derivatives of numbers: results that do not depend on an argument, numbers that
// outlive their derivative or were moved from.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude {
namespace {

using Doubles = std::vector<double>;

class ScalarWarnings : public testing::Test {
 protected:
  void SetUp() override {
    internal::forget_warnings();
    before_ = set_warning_handler([this](std::string_view text) { told.emplace_back(text); });
  }
  void TearDown() override {
    set_warning_handler(before_);
    set_diagnostics({});
  }
  std::vector<std::string> told;

 private:
  WarningHandler before_;
};

// spec: G4.a, D7.a, D6
TEST_F(ScalarWarnings, AnArgumentWithoutEffect) {
  const auto f = [](const auto& v, const auto& w) {
    return v[0] * v[0] + 0.0 * w[0] - w[0] + w[0];
  };
  const auto g = [](const auto& v, const auto&) { return v[0] * v[0]; };
  EXPECT_EQ(gradient(f, Doubles{1, 2, 3}, Doubles{4, 5}),
            std::tuple(Doubles({2, 0, 0}), Doubles({0, 0})));
  EXPECT_TRUE(told.empty()) << "it depends, though its slope is zero: " << told[0];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gradient(g, Doubles{1, 2, 3}, Doubles{4, 5}),
              std::tuple(Doubles({2, 0, 0}), Doubles({0, 0})));
  }
  ASSERT_EQ(told.size(), 1U) << "once for each function";
  EXPECT_NE(told[0].find("the result does not depend on argument 1 (std::vector<double"),
            std::string::npos)
      << told[0];
  EXPECT_NE(told[0].find("Pass it as no_derivative(x)"), std::string::npos);
}

// spec: G4.a, G4.d, D7.a
TEST_F(ScalarWarnings, NoArgumentHasAnEffect) {
  const auto f = [](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    return T(2.0);
  };
  EXPECT_EQ(gradient(f, Doubles{1, 2, 3, 4, 5}), Doubles(5, 0.0));
  ASSERT_EQ(told.size(), 1U);
  set_diagnostics({.independent_result = Severity::kError});
  EXPECT_THROW(gradient(f, Doubles{1, 2, 3, 4, 5}), Error);
  set_diagnostics({.independent_result = Severity::kIgnore});
  internal::forget_warnings();
  EXPECT_EQ(gradient(f, Doubles{1, 2, 3, 4, 5}), Doubles(5, 0.0));
  EXPECT_EQ(told.size(), 1U);
}

// spec: G17.a, G4.a
TEST_F(ScalarWarnings, RoundingEndsTheDependence) {
  const auto f = [](const auto& v) { return floor(v[0]) * 2.0; };
  EXPECT_EQ(gradient(f, Doubles{1.5, 0, 0, 0, 0}), Doubles(5, 0.0));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("its gradient is zero; last dependent value: floor. Pass"),
            std::string::npos)
      << told[0];
  const auto cast = [](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    return T(static_cast<int>(v[0]));
  };
  EXPECT_EQ(gradient(cast, Doubles{1.5, 0, 0, 0, 0}), Doubles(5, 0.0));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_NE(told[1].find("last dependent value: a cast to an integer"), std::string::npos);
}

// spec: G5.a, G5.b, D74.b
TEST_F(ScalarWarnings, NumbersThatOutliveTheirDerivative) {
  std::vector<Active<double>> kept(1);
  const auto keep = [&](const auto& v) {
    kept[0] = v[0] * 3.0;
    return v[0] * v[0];
  };
  const auto use = [&](const auto& v) { return v[0] * kept[0]; };
  EXPECT_EQ(gradient(keep, Doubles{2, 0, 0, 0, 0})[0], 4);
  EXPECT_EQ(gradient(use, Doubles{5, 0, 0, 0, 0})[0], 6) << "a constant";
  set_diagnostics({.escaped_value = Severity::kError});
  try {
    gradient(use, Doubles{5, 0, 0, 0, 0});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "a number of a derivative that has ended is used in another one: it is a "
                 "constant there. Return it, pass it as an argument, or store stop_gradient() of "
                 "it");
  }
  set_diagnostics({.escaped_value = Severity::kWarn});
  EXPECT_EQ(gradient(use, Doubles{5, 0, 0, 0, 0})[0], 6);
  EXPECT_EQ(told.size(), 1U);
}

TEST_F(ScalarWarnings, NumbersThatWereMovedFrom) {
  const auto f = [](const auto& v) {
    auto a = v[0] * v[1];
    auto b = std::move(a);
    return a * b;  // NOLINT(bugprone-use-after-move): the tested use
  };
  try {
    gradient(f, Doubles{1, 2, 3, 4, 5});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "gradient: a number is used after std::move took it elsewhere, so its derivative "
                 "is lost. Copy it instead of moving it");
  }
}

}  // namespace
}  // namespace etude
