// SPDX-License-Identifier: Apache-2.0
// The rows of tests/rows on tensors of rank 0: the same programs, with tensors in place of numbers.
#include "etude/autodiff/gradient.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/rows/arrays.h"
#include "tests/rows/control_flow.h"
#include "tests/rows/statements.h"

namespace etude::tests {

// Arguments and results are numbers to the rows, and tensors to the programs.
struct OnTensors {
  static constexpr bool kDecides = true;
  static constexpr int kSteps = 100000;
  static int whole(const Tensor& x) { return x.item<int>(); }

  static Tensor lift(double x) { return Tensor(x); }
  static int lift(int x) { return x; }
  static std::vector<Tensor> lift(const Doubles& x) { return {x.begin(), x.end()}; }
  template <class... T>
  static auto lift(const std::tuple<T...>& x) {
    return std::apply([](const auto&... each) { return std::tuple(lift(each)...); }, x);
  }
  static double lower(const Tensor& x) { return x.item<double>(); }
  static Doubles lower(const std::vector<Tensor>& x) {
    Doubles out;
    for (const Tensor& each : x) out.push_back(lower(each));
    return out;
  }
  template <class... T>
  static auto lower(const std::tuple<T...>& x) {
    return std::apply([](const auto&... each) { return std::tuple(lower(each)...); }, x);
  }

  template <class F, class... X>
  static auto gradient(const F& f, const X&... x) {
    return lower(etude::gradient(f, lift(x)...));
  }
  template <class F, class... X>
  static auto value_with_gradient(const F& f, const X&... x) {
    const auto [value, grads] = etude::value_with_gradient(f, lift(x)...);
    return std::pair(lower(value), lower(grads));
  }
  template <class F, class Ct, class... X>
  static auto pulled(const F& f, const Ct& ct, const X&... x) {
    return lower(etude::pullback(f, lift(x)...)(lift(ct)));
  }
  template <class F>
  static void expect_derivative(const F& f, double x, double value, double slope) {
    EXPECT_EQ(value_with_gradient(f, x), std::pair(value, slope)) << "at " << x;
    EXPECT_EQ(pulled(f, 1.0, x), slope) << "at " << x;
    EXPECT_EQ(lower(derivative(f, lift(x))), slope) << "at " << x;
  }
  template <class F>
  static void expect_gradient(const F& f, double x, double y, Pair want) {
    EXPECT_EQ(gradient(f, x, y), want) << "at " << x << ", " << y;
    EXPECT_EQ(pulled(f, 1.0, x, y), want) << "at " << x << ", " << y;
  }
};

// The same in lazy scopes.
struct OnLazyTensors : OnTensors {
  static constexpr int kSteps = 10000;
  template <class F, class... X>
  static auto gradient(const F& f, const X&... x) {
    const LazyScope lazy;
    return OnTensors::gradient(f, x...);
  }
  template <class F, class... X>
  static auto value_with_gradient(const F& f, const X&... x) {
    const LazyScope lazy;
    return OnTensors::value_with_gradient(f, x...);
  }
  template <class F, class Ct, class... X>
  static auto pulled(const F& f, const Ct& ct, const X&... x) {
    const LazyScope lazy;
    return OnTensors::pulled(f, ct, x...);
  }
  template <class F>
  static void expect_derivative(const F& f, double x, double value, double slope) {
    const LazyScope lazy;
    OnTensors::expect_derivative(f, x, value, slope);
  }
  template <class F>
  static void expect_gradient(const F& f, double x, double y, Pair want) {
    const LazyScope lazy;
    OnTensors::expect_gradient(f, x, y, want);
  }
};

// The same in graphs, which are differentiated from outside.
struct OnStagedTensors : OnTensors {
  static constexpr bool kDecides = false;
  static constexpr int kSteps = 1000;
  template <class F>
  static auto staged(const F& f) {
    return [f](const auto&... x) {
      const auto body = [&f](const std::decay_t<decltype(x)>&... each) { return f(each...); };
      return function(body)(x...);
    };
  }
  template <class F, class... X>
  static auto gradient(const F& f, const X&... x) {
    return OnTensors::gradient(staged(f), x...);
  }
  template <class F, class... X>
  static auto value_with_gradient(const F& f, const X&... x) {
    return OnTensors::value_with_gradient(staged(f), x...);
  }
  template <class F, class Ct, class... X>
  static auto pulled(const F& f, const Ct& ct, const X&... x) {
    return OnTensors::pulled(staged(f), ct, x...);
  }
  template <class F>
  static void expect_derivative(const F& f, double x, double value, double slope) {
    OnTensors::expect_derivative(staged(f), x, value, slope);
  }
  template <class F>
  static void expect_gradient(const F& f, double x, double y, Pair want) {
    OnTensors::expect_gradient(staged(f), x, y, want);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(OnTensors, ControlFlow, OnTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnTensors, Arrays, OnTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnTensors, Statements, OnTensors);
// spec: D50.b, D51.b, D52.b, D53.b, D54.b, D55.b, D56.b, D57.b, D58.b, D59.b, D60.b, D61.b,
//       D62.b, D63.b, D64.b, D65.b, D66.c, D67.c, D69.b, D70.b, D71.c, D72.b, D73.b, D75.e,
//       D80.b, D81.b, D82.b, D83.b, D84.c, D85.b, D86.b, D87.c, D90.b
INSTANTIATE_TYPED_TEST_SUITE_P(OnLazyTensors, ControlFlow, OnLazyTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnLazyTensors, Arrays, OnLazyTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnLazyTensors, Statements, OnLazyTensors);
// spec: D58.c, D59.c, D60.c, D61.c, D62.c, D63.c, D64.c, D66.d, D67.d, D69.c, D70.c, D71.d,
//       D72.c, D73.c, D75.f, D80.c, D81.c, D82.c, D83.c, D84.d, D85.c, D86.c, D87.d, D90.c
INSTANTIATE_TYPED_TEST_SUITE_P(OnStagedTensors, ControlFlow, OnStagedTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnStagedTensors, Arrays, OnStagedTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnStagedTensors, Statements, OnStagedTensors);

// spec: D74.b
TEST(TensorControlFlow, CapturedVariables) {
  Tensor seen;
  const auto cube = [&](const Tensor& x) {
    seen = x * x;
    return seen * x;
  };
  EXPECT_EQ(gradient(cube, Tensor(2.0)).item<double>(), 12);
  EXPECT_EQ(gradient([&](const Tensor& x) { return seen * x; }, Tensor(5.0)).item<double>(), 4);
}

}  // namespace etude::tests
