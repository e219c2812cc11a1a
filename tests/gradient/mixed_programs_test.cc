// SPDX-License-Identifier: Apache-2.0
// Random programs on numbers and tensors that go to and fro: reverse mode, pullbacks, forward mode
// and central differences agree.
#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/ops.h"

namespace etude {
namespace {

constexpr int kNumbers = 4, kTensors = 3, kElements = 3;

enum class Step : uint8_t {
  kMultiply,
  kAdd,
  kAddInPlace,
  kScaleInPlace,
  kCopy,
  kTensorMultiply,
  kTensorAdd,
  kTimesNumber,
  kFromNumber,
  kFromNumbers,
  kToNumber,
  kToNumbers,
  kCount
};

struct Instruction {
  Step step;
  int to, a, b;
};
using Program = std::vector<Instruction>;

Program random_program(std::mt19937& bits) {
  const auto below = [&](int n) { return static_cast<int>(bits() % static_cast<unsigned>(n)); };
  Program out;
  const int length = 2 + below(14);
  for (int i = 0; i < length; ++i) {
    out.push_back({static_cast<Step>(below(static_cast<int>(Step::kCount))), below(12), below(12),
                   below(12)});
  }
  return out;
}

template <class T>
struct Machine {
  std::vector<T> numbers;
  std::vector<Tensor> tensors;

  T& number(int i) { return numbers[static_cast<std::size_t>(i % kNumbers)]; }
  Tensor& tensor(int i) { return tensors[static_cast<std::size_t>(i % kTensors)]; }

  // All results stay small, so that differences are exact enough.
  void run(const Instruction& at) {
    using std::sin;
    switch (at.step) {
      case Step::kMultiply:
        number(at.to) = sin(number(at.a) * number(at.b));
        break;
      case Step::kAdd:
        number(at.to) = sin(number(at.a) + number(at.b) * 0.5);
        break;
      case Step::kAddInPlace:
        number(at.to) += number(at.a) * number(at.b) * 0.25;
        break;
      case Step::kScaleInPlace:
        number(at.to) *= 0.75;
        break;
      case Step::kCopy:
        number(at.to) = number(at.a);
        break;
      default:
        run_on_tensors(at);
    }
  }
  void run_on_tensors(const Instruction& at) {
    switch (at.step) {
      case Step::kTensorMultiply:
        tensor(at.to) = etude::sin(tensor(at.a) * tensor(at.b));
        break;
      case Step::kTensorAdd:
        tensor(at.to) = etude::sin(tensor(at.a) - tensor(at.b) * 0.5);
        break;
      case Step::kTimesNumber:
        tensor(at.to) = etude::sin(tensor(at.a) * number(at.b));
        break;
      case Step::kFromNumber:
        tensor(at.to) = etude::sin(number(at.a) - tensor(at.b));
        break;
      case Step::kFromNumbers:
        tensor(at.to) = Tensor(std::vector<T>{number(at.a), number(at.b), number(at.a)});
        break;
      case Step::kToNumber:
        number(at.to) = tensor(at.a).at(at.b % kElements).template item<T>();
        break;
      case Step::kToNumbers: {
        const std::vector<T> all = tensor(at.a).template to_vector<T>();
        number(at.to) = all[0] * all[1];
        number(at.b) = all[2];
        break;
      }
      default:
        break;
    }
  }
};

// A program as a function of two tensors and two numbers.
struct Objective {
  Program program;
  template <class T>
  T operator()(const Tensor& u, const Tensor& v, const T& x, const T& y) const {
    Machine<T> machine{{x, y, x, T(0.5)}, {u, v, u}};
    for (const Instruction& at : program) machine.run(at);
    T total = 0;
    for (const T& n : machine.numbers) total += n;
    for (const Tensor& t : machine.tensors) total += sum(t).template item<T>() * 0.5;
    return total;
  }
};

struct Point {
  std::vector<double> u, v;
  double x, y;
  Point moved(const Point& by, double h) const {
    Point out = *this;
    for (int i = 0; i < kElements; ++i) {
      out.u[static_cast<std::size_t>(i)] += h * by.u[static_cast<std::size_t>(i)];
      out.v[static_cast<std::size_t>(i)] += h * by.v[static_cast<std::size_t>(i)];
    }
    out.x += h * by.x;
    out.y += h * by.y;
    return out;
  }
};
double value_at(const Objective& run, const Point& p) {
  return run(Tensor(p.u), Tensor(p.v), p.x, p.y);
}

template <class Slopes>
double along(const Slopes& slopes, const Point& by) {
  const auto& [du, dv, dx, dy] = slopes;
  double sum = dx * by.x + dy * by.y;
  const std::vector<double> us = du.template to_vector<double>();
  const std::vector<double> vs = dv.template to_vector<double>();
  for (std::size_t i = 0; i < us.size(); ++i) sum += us[i] * by.u[i] + vs[i] * by.v[i];
  return sum;
}

// spec: D20, D23, D24
TEST(MixedPrograms, AllModesAgree) {
  // Some do not depend on all of their arguments.
  set_diagnostics({.independent_result = Severity::kIgnore});
  std::mt19937 bits(20);
  const Point at{{0.3, -0.4, 0.5}, {0.6, 0.2, -0.7}, 0.8, -0.35};
  const Point by{{0.5, 1.0, -0.25}, {-0.75, 0.5, 1.0}, 0.3, -0.9};
  for (int i = 0; i < 4000; ++i) {
    const Objective run{random_program(bits)};
    const Tensor u(at.u), v(at.v);
    const auto [value, slopes] = value_with_gradient(run, u, v, at.x, at.y);
    ASSERT_DOUBLE_EQ(value, value_at(run, at)) << "program " << i;
    const double h = 1e-5;
    const double difference =
        (value_at(run, at.moved(by, h)) - value_at(run, at.moved(by, -h))) / (2 * h);
    ASSERT_NEAR(along(slopes, by), difference, 1e-6 * (1 + std::fabs(difference)))
        << "program " << i;
    const auto pull = pullback(run, u, v, at.x, at.y);
    ASSERT_DOUBLE_EQ(along(pull(1.0), by), along(slopes, by)) << "program " << i;
    ASSERT_DOUBLE_EQ(along(pull(-2.0), by), -2 * along(slopes, by)) << "program " << i;
    const auto forward =
        jvp(run, std::tuple(u, v, at.x, at.y), std::tuple(Tensor(by.u), Tensor(by.v), by.x, by.y));
    ASSERT_NEAR(forward.second, along(slopes, by), 1e-12 * (1 + std::fabs(difference)))
        << "program " << i;
  }
  set_diagnostics({});
}

}  // namespace
}  // namespace etude
