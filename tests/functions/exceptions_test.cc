// SPDX-License-Identifier: Apache-2.0
// Floating-point exceptions: kernels raise only the exceptions of their elements, so that programs
// with traps (feenableexcept) can run.
#include <cfenv>
#include <csetjmp>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/tier_scope.h"

namespace etude {
namespace {

using Unary = Tensor (*)(const Tensor&);

// Each is raised where an element is 0.
const std::vector<std::pair<const char*, Unary>> kFunctions = {
    {"divide", [](const Tensor& x) { return x / x; }},
    {"one over", [](const Tensor& x) { return 1.0F / x; }},
    {"reciprocal", [](const Tensor& x) { return reciprocal(x); }},
    {"log", [](const Tensor& x) { return log(x); }},
    {"rsqrt", [](const Tensor& x) { return rsqrt(x); }},
    {"remainder", [](const Tensor& x) { return x % x; }},
    {"floor_divide", [](const Tensor& x) { return floor_divide(x, x); }},
    {"pow", [](const Tensor& x) { return pow(x, -x); }},
    {"quotient of a choice", [](const Tensor& x) { return x / where(x > 1.0F, x, 0.0F); }},
    {"a chain", [](const Tensor& x) { return exp(x) / (x * x) + 2.0F / x; }}};

constexpr int kTraps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
sigjmp_buf trapped;
void on_trap(int) { siglongjmp(trapped, 1); }

// Whether a trap stops f(x). Flags do not show it, since kernels restore the state of the unit.
template <class F>
bool traps(const F& f, const Tensor& x) {
  const auto before = std::signal(SIGFPE, on_trap);
  volatile bool stopped = true;
  if (sigsetjmp(trapped, 1) == 0) {
    feenableexcept(kTraps);
    f(x).template to_vector<float>();
    stopped = false;
  }
  fedisableexcept(kTraps);
  std::signal(SIGFPE, before);
  return stopped;
}

// Vectors have 16, 8 or 4 lanes, and the last one seldom is whole.
TEST(FloatingPointExceptions, LanesBeyondTheEndRaiseNone) {
  EXPECT_TRUE(traps([](const Tensor& x) { return x / x; }, zeros({3})));
  for (const auto& [name, f] : kFunctions) {
    SCOPED_TRACE(name);
    for (const int64_t n : {1, 2, 3, 5, 7, 9, 13, 17, 31, 100}) {
      SCOPED_TRACE(n);
      const Tensor x = full({n}, 2.0F);
      EXPECT_FALSE(traps(f, x)) << "eager";
      const auto staged = function([f = f](const Tensor& v) { return f(v); });
      staged(x);
      EXPECT_FALSE(traps(staged, x)) << "staged";
      for (const internal::Tier made_for : {internal::Tier::kFast, internal::Tier::kBest}) {
        const tests::TierScope tier(made_for);
        const auto compiled = function([f = f](const Tensor& v) { return f(v); });
        compiled(x);
        EXPECT_FALSE(traps(compiled, x)) << "compiled";
      }
    }
  }
}

}  // namespace
}  // namespace etude
