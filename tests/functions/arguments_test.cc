// SPDX-License-Identifier: Apache-2.0
// The choice of the graph for a call by the values in the arguments besides tensors.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

// spec: TC-04.a, TC-06.b
TEST(Function, KnowsStructureAndHostValues) {
  using Values = std::vector<Tensor>;
  const auto f = function([](const std::vector<Values>& x, double k) {
    Tensor total = zeros({2});
    for (const Values& row : x) {
      for (const Tensor& y : row) total += y * static_cast<float>(k);
    }
    return total;
  });
  const Tensor a = ones({2});
  EXPECT_EQ(f({{a}, {a, a}}, 1.0).to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(f({{a, a}, {a}}, 1.0).to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(f.trace_count(), 2u);
  EXPECT_EQ(f({{a}, {a, a}}, 2.0).to_vector<float>(), (std::vector<float>{6, 6}));
  EXPECT_EQ(f.trace_count(), 3u);
  f({{a}}, 0.0);
  f({{a}}, -0.0);
  f({{a}}, std::nan(""));
  f({{a}}, std::nan(""));
  EXPECT_EQ(f.trace_count(), 6u);
}

// spec: TC-04.b
TEST(Function, KnowsTexts) {
  const auto f = function([](const std::vector<std::string>& names, const Tensor& x) {
    return x * static_cast<float>(names.size());
  });
  f({"ab", "c"}, ones({1}));
  f({"a", "bc"}, ones({1}));
  f({"ab", "c"}, ones({1}));
  EXPECT_EQ(f.trace_count(), 2u);
}

// spec: TC-08
TEST(Function, HoldsObjectsWeakly) {
  struct Thing {
    float factor;
  };
  const auto f =
      function([](const std::shared_ptr<Thing>& t, const Tensor& x) { return x * t->factor; });
  std::weak_ptr<Thing> seen;
  for (int i = 1; i <= 3; ++i) {
    const auto thing = std::make_shared<Thing>(Thing{static_cast<float>(i)});
    seen = thing;
    EXPECT_EQ(f(thing, Tensor(1.0F)).item<float>(), i);
    EXPECT_EQ(f(thing, Tensor(2.0F)).item<float>(), 2 * i);
    EXPECT_EQ(f.trace_count(), 1u);
  }
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(f.trace_count(), 0u);
}

// spec: TC-08
TEST(Function, LetsGoOfTheGraphsOfDeadObjects) {
  struct Thing {
    float factor;
  };
  using Handle = std::shared_ptr<Thing>;
  for (const bool is_lazy : {false, true}) {
    std::optional<LazyScope> lazy;
    if (is_lazy) lazy.emplace();
    const auto f = function([](const std::vector<Handle>& things, const Tensor& x) {
      return x * full({1000}, things.at(0)->factor);
    });
    const auto kept = std::make_shared<Thing>(Thing{3.0F});
    const Handle null;
    const auto call = [&](const Handle& thing, const Handle& other) {
      return f({thing, other}, ones({1000})).at(0).item<float>();
    };
    EXPECT_EQ(call(kept, null), 3.0F);
    int64_t tensors = 0;
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(call(std::make_shared<Thing>(Thing{2.0F}), kept), 2.0F);
      EXPECT_EQ(call(kept, std::make_shared<Thing>()), 3.0F);
      if (i == 9) tensors = tests::live_tensors();
    }
    EXPECT_LE(tests::live_tensors(), tensors);
    EXPECT_EQ(call(kept, null), 3.0F);  // of a null pointer nothing dies
    EXPECT_EQ(f.trace_count(), 1u);
    EXPECT_EQ(f.traces().size(), 1u);
  }
}

// spec: TC-08
TEST(Function, MakesNoVariablesAnewForALaterObject) {
  struct Thing {};
  std::vector<Variable> made;
  const auto f = function([&](const std::shared_ptr<Thing>&, const Tensor& x) {
    if (made.empty()) made.emplace_back(2.0F);
    return x * made[0];
  });
  EXPECT_EQ(f(std::make_shared<Thing>(), Tensor(1.0F)).item<float>(), 2.0F);
  EXPECT_EQ(f.trace_count(), 0u);
  made.clear();
  tests::expect_error([&] { f(std::make_shared<Thing>(), Tensor(1.0F)); },
                      ErrorCode::kFailedPrecondition, {"is made whenever the function is traced"});
}

}  // namespace
}  // namespace etude
