// SPDX-License-Identifier: Apache-2.0
// Messages of failures in staged code: the op, its line, and the chain of calls.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::message_of;

constexpr int kTakeLine = __LINE__ + 1;
Tensor pick(const Tensor& x, const Tensor& i) { return take(x, i); }
constexpr int kProductLine = __LINE__ + 1;
Tensor product(const Tensor& x) { return matmul(x, x); }

// The end of a message: the line, and the functions with the lines of their calls.
std::string tail(int line, const std::vector<std::pair<std::string, int>>& callers) {
  const std::string file = CallSite::here().file;
  std::string out = fmt::format("\n  at {}:{}", file, line);
  for (const auto& [name, at] : callers) {
    out += fmt::format("\n  in function '{}' called at {}:{}", name, file, at);
  }
  return out;
}

struct Nested {
  Function<Tensor(const Tensor&, const Tensor&)> inner = function(pick, {.name = "inner"});
  int inner_line = 0;
  Function<Tensor(const Tensor&, const Tensor&)> outer = function(
      [this](const Tensor& x, const Tensor& i) {
        inner_line = __LINE__ + 1;
        return inner(x * 2.0F, i);
      },
      {.name = "outer"});
};

// spec: ST-09.a, ST-09.b
TEST(Faults, NameTheFunctionsFromTheOutermost) {
  Nested f;
  f.outer(ones({3}), Tensor({1}));
  const int line = __LINE__ + 1;
  const auto fails = [&] { f.outer(ones({3}), Tensor({7})); };
  expect_error(fails, ErrorCode::kOutOfRange, {"take: "});
  const std::string want = tail(kTakeLine, {{"outer", line}, {"inner", f.inner_line}});
  EXPECT_TRUE(message_of(fails).ends_with(want)) << message_of(fails) << "\n" << want;
  expect_error(fails, ErrorCode::kOutOfRange, {"index 7"});  // not sticky
  EXPECT_EQ(f.outer(ones({3}), Tensor({1})).to_vector<float>(), std::vector<float>{2});
}

// spec: ST-09.a, ST-09.b
TEST(Faults, NameTheFunctionsOfAFailureWhileTracing) {
  const auto inner = function(product, {.name = "inner"});
  const int inner_line = __LINE__ + 1;
  const auto outer = function([&](const Tensor& x) { return inner(x) + 1.0F; }, {.name = "outer"});
  const int line = __LINE__ + 1;
  const auto fails = [&] { outer(ones({2, 3})); };
  expect_error(fails, ErrorCode::kInvalidArgument, {"matmul: "});
  const std::string want = tail(kProductLine, {{"outer", line}, {"inner", inner_line}});
  EXPECT_TRUE(message_of(fails).ends_with(want)) << message_of(fails) << "\n" << want;
}

// Under a tape an op runs the plan, but the error names the failed step.
TEST(Faults, NameTheStepUnderATape) {
  Nested f;
  int line = 0;
  const auto fails = [&] {
    gradient(
        [&](const Tensor& x) {
          line = __LINE__ + 1;
          return sum(f.outer(x, Tensor({7})));
        },
        ones({3}));
  };
  expect_error(fails, ErrorCode::kOutOfRange, {"take: "});
  const std::string want = tail(kTakeLine, {{"outer", line}, {"inner", f.inner_line}});
  EXPECT_TRUE(message_of(fails).ends_with(want)) << message_of(fails) << "\n" << want;
  EXPECT_EQ(message_of(fails).find("call"), message_of(fails).find("called at"));
}

TEST(Faults, NameTheStepUnderAVmap) {
  const auto f = function(pick, {.name = "f"});
  const auto fails = [&] {
    vmap([&](const Tensor& x) { return f(x, Tensor({7})); })(ones({2, 3}));
  };
  expect_error(fails, ErrorCode::kOutOfRange,
               {"take: ", fmt::format("  at {}:{}", CallSite::here().file, kTakeLine)});
}

TEST(Faults, HaveNoCallersOutsideOfFunctions) {
  const auto fails = [] { pick(ones({3}), Tensor({7})); };
  EXPECT_TRUE(message_of(fails).ends_with(tail(kTakeLine, {}))) << message_of(fails);
}

}  // namespace
}  // namespace etude
