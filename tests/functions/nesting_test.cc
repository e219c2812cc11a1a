// SPDX-License-Identifier: Apache-2.0
// Functions that call functions, level above level.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "etude/base/sanitizers.h"
#include "etude/etude.h"
#include "etude/plan/plan.h"

namespace etude {
namespace {

// Each level calls the one below twice, `levels` times over: 2^levels calls of the lowest.
template <class Lowest>
Function<Tensor(Tensor)> doubled(Lowest lowest, int levels) {
  Function<Tensor(Tensor)> f = function([lowest](Tensor x) { return lowest(x); });
  for (int i = 0; i < levels; ++i) {
    f = function([below = f](Tensor x) { return below(below(x) * 0.5F); });
  }
  return f;
}

// In place, the calls of thirty levels would be a thousand million nodes.
TEST(Nesting, CallsOthersInAsManyLevelsAsItLikes) {
  const auto lowest = [](const Tensor& x) { return x * 0.75F + 0.25F; };
  const auto deep = doubled(lowest, 30).trace(Tensor(1.0F));
  EXPECT_EQ(deep.graph().size(), 3u);
  EXPECT_LT(internal::Plan::of(deep.graph())->steps(), 3000u);

  const int levels = internal::kHasAddressSanitizer ? 13 : 17;  // runs, 2 to that power
  const std::function<float(float, int)> by_host = [&](float x, int level) -> float {
    if (level == 0) return x * 0.75F + 0.25F;
    return by_host(by_host(x, level - 1) * 0.5F, level - 1);
  };
  const auto f = doubled(lowest, levels);
  EXPECT_EQ(f(Tensor(1.0F)).item<float>(), by_host(1.0F, levels));
  EXPECT_LT(internal::Plan::of(f.traces()[0].graph())->steps(), 3000u);
}

TEST(Nesting, TellsWhatFailsBelowCallsThatArePlansOfTheirOwn) {
  const auto lowest = [](const Tensor& x) {
    return x + take(Tensor({1.0F, 2.0F}), astype(x, kInt32), {.axis = 0}) * 0.0F;
  };
  const auto f = doubled(lowest, 15);
  EXPECT_EQ(f(Tensor(0.0F)).item<float>(), 0);
  try {
    f(Tensor(7.0F));
    FAIL() << "7 is no index";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("take: ")) << text.substr(0, 200);
    EXPECT_NE(text.find("tests/functions/nesting_test.cc:"), std::string::npos);
    std::size_t callers = 0;
    for (std::size_t at = 0; (at = text.find("in function", at)) != std::string::npos; ++at) {
      ++callers;
    }
    EXPECT_EQ(callers, 16u) << text;
  }
}

}  // namespace
}  // namespace etude
