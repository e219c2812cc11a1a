// SPDX-License-Identifier: Apache-2.0
// Tensors that outlive the derivative that made them are constants in the next derivative, which
// reports them on request.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/warnings.h"

namespace etude {
namespace {

using tests::contains;
using tests::error_of;

class EscapedValues : public testing::Test {
 protected:
  void TearDown() override { set_diagnostics({}); }
  std::string line(int number) const { return "escaped_values_test.cc:" + std::to_string(number); }

 private:
  const tests::Warnings heard_;

 protected:
  const std::vector<std::string>& told = heard_.told;
};

// spec: G5.d
TEST_F(EscapedValues, AreErrorsThatNameBothLines) {
  set_diagnostics({.escaped_value = Severity::kError});
  Tensor kept;
  const auto keep = [&](const Tensor& t) {
    kept = t * t;
    return sum(kept);
  };
  const auto use = [&](const Tensor& t) { return t * kept; };
  const int made = __LINE__ - 4, used = __LINE__ - 1;
  EXPECT_EQ(gradient(keep, Tensor(3.0)).item<double>(), 6);
  const std::string text =
      error_of(ErrorCode::kInvalidArgument, [&] { gradient(use, Tensor(2.0)); });
  EXPECT_TRUE(contains(text, "a tensor of a derivative that has ended (multiply at ")) << text;
  EXPECT_TRUE(contains(text, line(made) + ") is used in another one at ")) << text;
  EXPECT_TRUE(contains(text, line(used) + ": it is a constant there")) << text;
  EXPECT_EQ(kept.item<double>(), 9) << "outside of derivatives it is a plain tensor";
}

// spec: G5.a, G5.d
TEST_F(EscapedValues, AreConstantsUnlessAskedFor) {
  Tensor kept;
  const auto keep = [&](const Tensor& t) {
    kept = t * t;
    return sum(kept);
  };
  const auto use = [&](const Tensor& t) { return t * kept; };
  gradient(keep, Tensor(3.0));
  EXPECT_EQ(gradient(use, Tensor(2.0)).item<double>(), 9);
  EXPECT_TRUE(told.empty());
  set_diagnostics({.escaped_value = Severity::kWarn});
  gradient(keep, Tensor(4.0));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(gradient(use, Tensor(2.0)).item<double>(), 16);
  EXPECT_EQ(told.size(), 1U) << "once for each place";
}

TEST_F(EscapedValues, ResultsAndStoppedValuesDoNotEscape) {
  set_diagnostics({.escaped_value = Severity::kError});
  const auto square = [](const Tensor& t) { return t * t; };
  const auto [value, slope] = value_with_gradient(square, Tensor(3.0));
  EXPECT_EQ(gradient([&, v = value, s = slope](const Tensor& t) { return t * v * s; }, Tensor(2.0))
                .item<double>(),
            54);
  Tensor stopped;
  gradient(
      [&](const Tensor& t) {
        stopped = stop_gradient(t * t);
        return t * t;
      },
      Tensor(3.0));
  EXPECT_EQ(gradient([&](const Tensor& t) { return t * stopped; }, Tensor(2.0)).item<double>(), 9);
  const auto [result, pull] = value_with_pullback(square, Tensor(3.0));
  EXPECT_EQ(
      gradient([&, r = result](const Tensor& t) { return t * r; }, Tensor(2.0)).item<double>(), 9);
  const auto second = [&](const Tensor& t) {
    return gradient([](const Tensor& x) { return x * x * x; }, t);
  };
  EXPECT_EQ(gradient(second, Tensor(2.0)).item<double>(), 12);
}

}  // namespace
}  // namespace etude
