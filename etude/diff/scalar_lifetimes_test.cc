// SPDX-License-Identifier: Apache-2.0
// Lifetimes in derivatives of numbers: pullbacks that are kept, called again, on other threads or
// never; numbers and closures of ended derivatives; nested derivatives; memory over many calls.
// Errors: scalar_faults_test.cc.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <malloc.h>

#include "etude/diff/scalar_expect.h"
#include "tests/expect_error.h"

namespace {

std::atomic<long> live_bytes = 0;

}  // namespace

// Counted, for the whole program: new[] and the forms without exceptions come here as well. Not
// inlined: g++ takes half of an inlined pair for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* made = std::malloc(size == 0 ? 1 : size);
  if (made == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<long>(malloc_usable_size(made));
  return made;
}
[[gnu::noinline]] void operator delete(void* old) noexcept {
  if (old != nullptr) live_bytes -= static_cast<long>(malloc_usable_size(old));
  std::free(old);
}
[[gnu::noinline]] void operator delete(void* old, std::size_t) noexcept { operator delete(old); }

namespace etude {
namespace {

// spec: D23
TEST(ScalarLifetimes, PullbacksThatOutliveAllElse) {
  std::optional<decltype(pullback(squares, Vector()))> pull;
  std::weak_ptr<int> captured;
  {
    auto x = std::make_unique<Vector>(Vector{1, 2, 3});
    auto shared = std::make_shared<int>(2);
    captured = shared;
    auto f = [shared](auto v) {
      for (auto& e : v) e *= e;
      return v;
    };
    pullback(f, *x);  // never called
    const auto of_f = pullback(f, *x);
    pull = pullback(squares, *x);
    (*x)[0] = 100;
    EXPECT_EQ(of_f({1, 1, 1}), Vector({2, 4, 6}));
  }
  EXPECT_TRUE(captured.expired());
  const Vector once = (*pull)({1, 1, 1});
  EXPECT_EQ(once, Vector({2, 4, 6}));
  EXPECT_EQ((*pull)({0, 10, 1}), Vector({0, 40, 6}));
  EXPECT_EQ((*pull)({1, 1, 1}), once);
  auto copy = *pull;
  pull.reset();
  Vector elsewhere[4];
  std::vector<std::thread> threads;
  for (Vector& out : elsewhere) {
    threads.emplace_back([&out, copy] {
      for (int i = 0; i < 100; ++i) out = copy({1, 1, 1});
      expect_working();
    });
  }
  EXPECT_EQ(copy({1, 1, 1}), once);
  for (std::thread& t : threads) t.join();
  for (const Vector& out : elsewhere) EXPECT_EQ(out, once);
  std::thread([taken = std::move(copy)] { EXPECT_EQ(taken({1, 0, 0}), Vector({2, 0, 0})); }).join();
}

// Closures and containers that hold numbers of a derivative that has ended.
struct Kept {
  Reals numbers;
  std::function<Real(const Real&)> times;
} kept;

// spec: D74.b
TEST(ScalarLifetimes, NumbersKeptAfterTheirDerivative) {
  const auto keeps = [](const Reals& x) {
    kept.numbers = {x[0], x[0] * x[1], x[2] + 1.0, x[3]};
    kept.times = [by = x[1] * x[2]](const Real& z) { return by * z; };
    return kept.times(kept.numbers[1]);  // x0 x1^2 x2
  };
  const auto expect_plain = [] {
    for (const Real& x : kept.numbers) EXPECT_FALSE(x.varies());
    EXPECT_EQ(kept.numbers[1].value(), 2);
    EXPECT_FALSE((kept.numbers[1] * kept.numbers[2]).varies());
    EXPECT_EQ(kept.times(Real(2.0)).value(), 12);
  };
  EXPECT_EQ(gradient(keeps, five), Vector({12, 12, 4, 0, 0}));
  expect_plain();
  const auto pull = pullback(keeps, five);  // its tape lives on
  expect_plain();
  EXPECT_EQ(pull(1), Vector({12, 12, 4, 0, 0}));
  // They are constants in another derivative: results depend on that derivative's numbers only.
  const auto uses = [](const Reals& x) {
    kept.numbers[0] += x[0];
    kept.numbers[1] *= kept.numbers[2];
    Real y = kept.times(x[1]) + kept.numbers[0] * kept.numbers[3];
    std::swap(kept.numbers[1], y);
    return kept.numbers[1] + y;
  };
  EXPECT_EQ(gradient(uses, five), Vector({4, 6, 0, 0, 0}));
  for (const Real& x : kept.numbers) EXPECT_FALSE(x.varies());
  std::thread([] {
    EXPECT_EQ(gradient([](const Reals& x) { return kept.times(x[0]) * kept.numbers[3]; }, five),
              Vector({24, 0, 0, 0, 0}));
  }).join();
  EXPECT_EQ(pull(2), Vector({24, 24, 8, 0, 0}));
}

// Derivatives that end inside of another one, of the same numbers.
// spec: D27.g, D74.b
TEST(ScalarLifetimes, DerivativesInsideOfDerivatives) {
  const auto f = [](const Reals& x) {
    Real sum = x[0] * x[1];
    Reals inner;
    for (int i = 0; i < 3; ++i) {
      const Vector g = gradient(
          [&](const Reals& y) {
            inner.push_back(y[i] * y[0]);
            return product(y) + inner.back();
          },
          five);
      sum *= inner.back();  // a constant by now: 1, 2, 3
      sum += x[2] * g[0];   // 122, 122, 123
    }
    return sum + inner[1] * x[3];
  };
  EXPECT_EQ(gradient(f, five), Vector({12, 6, 122 * 6 + 122 * 3 + 123, 2, 0}));
  // Of numbers of the outer derivative, by a pullback that outlives it.
  std::function<Reals(const Real&)> pull;
  const auto outer = [&](const Reals& x) {
    const auto [value, of_inner] = value_with_pullback([](const auto& y) { return product(y); }, x);
    pull = of_inner;
    const Reals slopes = pull(x[0]);
    return value + slopes[0];  // x1 x2 x3 x4 (2 x0)
  };
  EXPECT_EQ(gradient(outer, five), Vector({240, 120, 80, 60, 48}));
  for (const Real& slope : pull(1.0)) EXPECT_FALSE(slope.varies());
  EXPECT_EQ(pull(1.0)[0].value(), 120);
  const auto later = [&](const Reals& x) { return pull(x[0])[0] + pull(2.0)[1] * x[1]; };
  EXPECT_EQ(gradient(later, five), Vector({120, 120, 0, 0, 0}));
}

// A number with one holder may be copied where its derivative is not the innermost: the copy also
// holds it from then on.
TEST(ScalarLifetimes, CopiesMadeElsewhere) {
  const auto copied_by = [](const auto& copy) {
    return [&copy](const Reals& x) {
      Real s = x[0] * x[1];
      Real other;
      copy([&] { other = s; });
      s *= x[0];
      return s + other;
    };
  };
  const auto in_inner = [](const auto& now) {
    gradient(
        [&](const Reals& y) {
          now();
          return y[0];
        },
        Vector{1, 2, 3, 4, 5});
  };
  const auto on_thread = [](const auto& now) { std::thread(now).join(); };
  EXPECT_EQ(gradient(copied_by(in_inner), five), Vector({6, 2, 0, 0, 0}));
  EXPECT_EQ(gradient(copied_by(on_thread), five), Vector({6, 2, 0, 0, 0}));
}

// Computations of another thread with numbers of a derivative are not recorded and would be lost.
TEST(ScalarLifetimes, ArithmeticOnAnotherThreadIsAnError) {
  const auto f = [](const Reals& x) {
    Real sum = 0;
    std::thread([&] {
      constexpr auto kCode = ErrorCode::kFailedPrecondition;
      const std::vector<std::string_view> texts = {"used on another, where nothing records it",
                                                   "stop_gradient(x)"};
      etude::tests::expect_error([&] { sum += x[0] * x[1]; }, kCode, texts);
      const auto inside = [&](const Reals& y) { return y[0] * x[2]; };
      etude::tests::expect_error([&] { gradient(inside, five); }, kCode, texts);
      expect_working();
    }).join();
    std::thread([&] { sum += stop_gradient(x[1]) * 2.0; }).join();  // a constant, explicitly
    return sum * x[0];
  };
  EXPECT_EQ(gradient(f, five), Vector({4, 0, 0, 0, 0}));
}

// A thread's storage may end before objects of the thread do.
TEST(ScalarLifetimes, DerivativesWhileAThreadEnds) {
  static std::atomic<bool> right = false;
  struct AtEnd {
    Vector x = Vector(5000, 1.0);
    ~AtEnd() { right = gradient(product, x) == x; }
  };
  std::thread([] {
    thread_local AtEnd at_end;  // before the first derivative, and so destroyed after its storage
    EXPECT_EQ(gradient(product, at_end.x), at_end.x);
  }).join();
  EXPECT_TRUE(right);
}

// Counts live objects.
struct Counted {
  static inline std::atomic<int> live = 0;
  Counted() { ++live; }
  Counted(const Counted&) { ++live; }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --live; }
};

const auto counted = [](const auto& x) {
  return custom_gradient([](const auto& v) {
    return std::pair{v * v, [v, count = Counted()](const auto& dy) { return 2.0 * v * dy; }};
  })(x);
};
const auto sum_of_counted = [](const auto& x) {
  auto sum = x[0] * 0.0;
  for (const auto& v : x) sum += counted(v);
  return sum;
};

// spec: D48
TEST(ScalarLifetimes, ClosuresOfRules) {
  const Vector slopes = {2, 4, 6, 8, 10};
  EXPECT_EQ(gradient(sum_of_counted, five), slopes);
  EXPECT_EQ(jvp(sum_of_counted, five, five).second, 110);
  EXPECT_EQ(hvp(sum_of_counted, five, five), slopes);
  EXPECT_EQ(Counted::live, 0);
  {
    const auto pull = pullback(sum_of_counted, five);
    EXPECT_EQ(Counted::live, 5);
    {
      const auto copy = pull;
      EXPECT_EQ(copy(1), slopes);
    }
    EXPECT_EQ(pull(1), slopes);
    EXPECT_EQ(Counted::live, 5);
    const auto unused = pullback(sum_of_counted, Vector(100, 1.0));
    EXPECT_EQ(Counted::live, 105);
  }
  EXPECT_EQ(Counted::live, 0);
  const auto fails = [](const auto& x) {
    auto y = sum_of_counted(x);
    if (y > 0) throw std::runtime_error("after five rules");
    return y;
  };
  const auto caught = [&](const auto& x) {
    try {
      return fails(x);
    } catch (const std::runtime_error&) {
      return x[0] * x[1];
    }
  };
  EXPECT_THROW(gradient(fails, five), std::runtime_error);
  EXPECT_THROW(hvp(fails, five, five), std::runtime_error);
  EXPECT_EQ(Counted::live, 0);
  EXPECT_EQ(gradient(caught, five), Vector({2, 1, 0, 0, 0}));
  EXPECT_EQ(Counted::live, 0);
}

// spec: D39
TEST(ScalarLifetimes, ManyCallsKeepNoMemory) {
  const auto nested = [](const auto& x) {
    const auto g = gradient(product, x);
    return g[0] * g[1];
  };
  const auto fails = [](const auto& x) {
    auto y = sum_of_counted(x);
    if (y > 0) throw std::runtime_error("in the middle");
    return y;
  };
  const auto again = [](const auto& x) { return recompute_grad(product)(x); };
  const auto each = [&](int i) {
    gradient(product, five);
    if (i % 10 != 0) return;
    pullback(squares, five)(five);
    gradient(sum_of_counted, five);
    gradient(again, five);
    gradient(nested, five);
    hvp(product, five, five);
    EXPECT_THROW(gradient(fails, five), std::runtime_error);
  };
  // Long tapes are made first, so that the memory kept for them is included.
  for (int i = 0; i < 10; ++i) gradient(product, Vector(10000, 1.0));
  for (int i = 0; i <= 10; ++i) each(i);
  const long after_ten = live_bytes;
  for (int i = 11; i <= (kIsInstrumented ? 5000 : 100000); ++i) {
    each(i);
    if (i % 1000 != 0) continue;
    ASSERT_EQ(live_bytes, after_ten) << "after " << i << " calls";
  }
  EXPECT_EQ(Counted::live, 0);
  expect_working();
}

}  // namespace
}  // namespace etude
