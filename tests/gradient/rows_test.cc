// SPDX-License-Identifier: Apache-2.0
// The rows of tests/rows on tensors of rank 0: the same programs, with tensors in place of numbers.
#include "etude/ops.h"
#include "etude/runtime/gradient.h"
#include "tests/rows/arrays.h"
#include "tests/rows/control_flow.h"

namespace etude::tests {

// Arguments and results are numbers to the rows, and tensors to the programs.
struct OnTensors {
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

INSTANTIATE_TYPED_TEST_SUITE_P(OnTensors, ControlFlow, OnTensors);
INSTANTIATE_TYPED_TEST_SUITE_P(OnTensors, Arrays, OnTensors);

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
