// SPDX-License-Identifier: Apache-2.0
// Random programs on numbers in reverse, forward and nested modes: equal values and branches, and
// the derivatives of the oracle (number_oracle.h), which knows no rule of the library. Program n is
// made from seed n alone. A failure prints the smallest program that fails in the same way, as C++:
//
//   build/dev/bin/random_numbers_test --programs 1000000 --seed 50000
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"
#include "tests/property/number_machine.h"
#include "tests/property/number_maker.h"
#include "tests/property/number_oracle.h"
#include "tests/property/number_shrink.h"
#include "tests/property/number_text.h"

namespace etude::programs {
namespace {

using Vector = std::vector<double>;

// A program as a function of its inputs.
struct Run {
  const Program* program;
  Trace* trace;
  double noise = 0;

  template <class T>
  std::vector<T> operator()(const std::vector<T>& x) const {
    *trace = Trace();
    trace->noise = noise;
    return Machine<T>(x[0], x[1], x[2], trace).run(*program);
  }
};

// The sum of its results, each times a number. Nearby there may be more results: those are left
// out.
struct Weighted {
  Run run;
  const Vector* weights;

  template <class T>
  T operator()(const std::vector<T>& x) const {
    const std::vector<T> y = run(x);
    T sum = 0;
    for (std::size_t i = 0; i < std::min(y.size(), weights->size()); ++i) {
      sum += (*weights)[i] * y[i];
    }
    return sum;
  }
  template <class T>
  T operator()(const std::array<T, kInputs>& x) const {
    return (*this)(std::vector<T>(x.begin(), x.end()));
  }
};

// How many programs have such large terms that nothing but values is compared, how many go another
// way in more digits, and how many of the second derivatives could not be compared with the
// oracle's, since a branch is decided otherwise nearby or differences of two widths differ.
struct Counts {
  int programs = 0, wild = 0, unsteady = 0, second = 0, second_rough = 0;
};

struct Fault {
  std::string text;
};

void require(bool holds, const std::string& what) {
  if (!holds) throw Fault{what};
}
void require_near(const std::string& what, double got, double want, double tolerance) {
  if (std::abs(got - want) <= tolerance) return;
  char out[160];
  std::snprintf(out, sizeof out, ": got %.17g, want %.17g, within %g", got, want, tolerance);
  throw Fault{what + out};
}
// Bit for bit, but for the sign of zero.
void require_equal(const std::string& what, const Vector& got, const Vector& want) {
  require(got.size() == want.size(), what + ": sizes differ");
  for (std::size_t i = 0; i < got.size(); ++i) {
    require_near(what + " " + std::to_string(i), got[i], want[i], 0);
  }
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double size_of(const Vector& v) {
  double sum = 0;
  for (const double e : v) sum += std::abs(e);
  return sum;
}

class Case {
 public:
  // Inputs, weights and directions are made from the seed.
  Case(const Program& program, uint64_t seed) : maker_(~seed), program_(program) {
    x_ = numbers(kInputs);
    direction_ = numbers(kInputs);
    y_ = run_(x_);
    decisions_ = trace_.decisions;
    weights_ = numbers(y_.size());
  }

  std::string text() const { return text_of(program_, x_, weights_); }

  // Whether terms on the way are so large that their rounding hides derivatives.
  bool is_wild() const { return !(scale_ < 1e6); }

  void check_first_order(Counts& counts) {
    if (!std::ranges::all_of(y_, [](double y) { return std::isfinite(y); })) {
      scale_ = std::numeric_limits<double>::infinity();  // repeated sums in loops may overflow
      ++counts.wild;
      return;
    }
    check_values();
    counts.wild += is_wild() ? 1 : 0;
    if (is_wild()) return;
    check_forward();
    check_reverse();
    check_oracle();
    counts.unsteady += is_steady_ ? 0 : 1;
  }

  // Along a direction, by each mode over each.
  void check_second_order(Counts& counts) {
    const Weighted& f = weighted_;
    const Vector& v = direction_;
    const auto gradient_of = [&](const auto& x) { return gradient(f, x); };
    const auto along_gradient = [&](const auto& x) {
      const auto g = gradient(f, x);
      typename std::decay_t<decltype(x)>::value_type sum = 0;
      for (std::size_t i = 0; i < kInputs; ++i) sum += g[i] * v[i];
      return sum;
    };
    const auto along = [&](const auto& x) {
      return jvp(f, x, std::decay_t<decltype(x)>(v.begin(), v.end())).second;
    };
    const auto rows = hessian(f, x_);
    const Vector product = hvp(f, x_, v), twice = gradient(along_gradient, x_),
                 pulled = pullback(gradient_of, x_)(v), over_forward = gradient(along, x_);
    const double curvature = jvp(along, x_, v).second;
    double scale = scale_ * scale_;
    for (const Vector& row : rows) scale += size_of(row);
    for (std::size_t i = 0; i < kInputs; ++i) {
      const std::string name = "second derivative " + std::to_string(i);
      for (std::size_t j = 0; j < i; ++j) {
        require_near(name + ", symmetry", rows[i][j], rows[j][i], 1e-10 * scale);
      }
      require_near(name + ", hvp and hessian", product[i], dot(rows[i], v), 1e-10 * scale);
      require_near(name + ", reverse over reverse", twice[i], product[i], 1e-10 * scale);
      require_near(name + ", pullback over reverse", pulled[i], product[i], 1e-10 * scale);
      require_near(name + ", reverse over forward", over_forward[i], product[i], 1e-10 * scale);
    }
    require_near("second derivative, forward over forward", curvature, dot(product, v),
                 1e-10 * scale);
    check_oracle_differences(product, scale, counts);
  }

 private:
  Vector numbers(std::size_t n) {
    Vector out;
    for (std::size_t i = 0; i < n; ++i) out.push_back(maker_.input());
    return out;
  }
  void require_same_way(const std::string& what) const {
    require(trace_.decisions == decisions_, what + " decides otherwise than the plain run");
  }

  // All runs decide as the plain one and give its results. Measures how much results move.
  void check_values() {
    const Vector value = value_with_pullback(run_, x_).first;
    require_same_way("reverse mode");
    require_equal("value with pullback", value, y_);
    Vector unit(kInputs, 0.0);
    for (std::size_t i = 0; i < kInputs; ++i) {
      unit[i] = 1;
      const auto [same, column] = jvp(run_, x_, unit);
      require_same_way("forward mode");
      require_equal("value with tangent", same, y_);
      columns_.push_back(column);
      largest_ = std::max(largest_, trace_.largest);
      unit[i] = 0;
    }
    scale_ = 1 + size_of(jvp(Run{&program_, &trace_, largest_}, x_, unit).second);
    for (const Vector& column : columns_) scale_ += size_of(column);
  }

  // Along all inputs at once as along each by itself.
  void check_forward() {
    const std::array<double, kInputs> x{x_[0], x_[1], x_[2]};
    const auto [value, g] = value_with_gradient(weighted_, x);
    require_same_way("forward mode along three directions");
    for (std::size_t i = 0; i < kInputs; ++i) {
      require_near("forward by one and three, " + std::to_string(i), g[i],
                   dot(columns_[i], weights_), 1e-10 * scale_);
    }
  }

  // A pullback twice, with another cotangent between; the gradient of one number; and the same as
  // forward mode has.
  void check_reverse() {
    const auto pull = pullback(run_, x_);
    const Vector other = numbers(y_.size());
    slopes_ = pull(weights_);
    const Vector of_other = pull(other);
    require_equal("the pullback a second time", pull(weights_), slopes_);
    const auto [sum, g] = value_with_gradient(weighted_, x_);
    require_near("value with gradient", sum, dot(weights_, y_), 1e-12 * (1 + size_of(y_)));
    const Vector tangent = jvp(run_, x_, direction_).second;
    const double within = 1e-10 * scale_;
    for (std::size_t i = 0; i < kInputs; ++i) {
      const std::string name = "derivative " + std::to_string(i);
      require_near(name + ", pullback and jvp", slopes_[i], dot(columns_[i], weights_), within);
      require_near(name + ", gradient and jvp", g[i], dot(columns_[i], weights_), within);
    }
    require_near("dot(jvp(v), u)", dot(tangent, weights_), dot(direction_, slopes_), within);
    require_near("dot(jvp(v), w)", dot(tangent, other), dot(direction_, of_other), within);
  }

  // The oracle's value and slopes at x + by direction. False where it decides otherwise.
  bool ask_oracle(long double by, long double& value, std::array<long double, kInputs>& slopes) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      std::vector<Step> x;
      for (std::size_t j = 0; j < kInputs; ++j) {
        x.emplace_back(x_[j] + by * direction_[j], i == j ? 1.0L : 0.0L);
      }
      const Step sum = weighted_(x);
      if (trace_.decisions != decisions_) return false;
      value = sum.value();
      slopes[i] = sum.slope();
    }
    return true;
  }
  // If a loop magnifies rounding, a run with more digits has another result, and nothing is
  // compared.
  void check_oracle() {
    long double value = 0;
    std::array<long double, kInputs> slopes{};
    is_steady_ =
        ask_oracle(0, value, slopes) && std::abs(value - dot(weights_, y_)) < 1e-10L * scale_;
    for (std::size_t i = 0; is_steady_ && i < kInputs; ++i) {
      require_near("derivative " + std::to_string(i) + " and oracle", slopes_[i],
                   static_cast<double>(slopes[i]), 1e-9 * scale_);
    }
  }
  // Central differences of the oracle's slopes along the direction.
  bool oracle_difference(long double h, std::array<long double, kInputs>& out) {
    long double value = 0;
    std::array<long double, kInputs> sides[2];
    if (!ask_oracle(-h, value, sides[0]) || !ask_oracle(h, value, sides[1])) return false;
    for (std::size_t i = 0; i < kInputs; ++i) out[i] = (sides[1][i] - sides[0][i]) / (2 * h);
    return true;
  }
  void check_oracle_differences(const Vector& product, double scale, Counts& counts) {
    std::array<long double, kInputs> wide{}, narrow{};
    ++counts.second;
    bool is_smooth =
        is_steady_ && oracle_difference(2e-6L, wide) && oracle_difference(1e-6L, narrow);
    for (std::size_t i = 0; i < kInputs; ++i) {
      is_smooth = is_smooth && std::abs(wide[i] - narrow[i]) < 1e-7L * scale;
    }
    counts.second_rough += is_smooth ? 0 : 1;
    for (std::size_t i = 0; is_smooth && i < kInputs; ++i) {
      require_near("second derivative " + std::to_string(i) + " and oracle", product[i],
                   static_cast<double>(narrow[i]), 1e-6 * scale);
    }
  }

  Maker maker_;
  const Program& program_;
  Trace trace_;
  Run run_{&program_, &trace_};
  Vector weights_;
  Weighted weighted_{run_, &weights_};
  Vector x_, direction_, y_, slopes_;
  std::vector<Vector> columns_;  // of the derivatives of the results, one for each input
  uint64_t decisions_ = 0;
  // Of the derivatives on the way, and of the terms that they and rounding on the way may add.
  double largest_ = 1, scale_ = 1;
  bool is_steady_ = true;
};

// The fault of a program; "" if it has none.
std::string fault_of(const Program& program, uint64_t seed, Counts& counts) {
  try {
    Case made(program, seed);
    made.check_first_order(counts);
    if (seed % 4 == 0 && !made.is_wild()) made.check_second_order(counts);
  } catch (const Fault& f) {
    return f.text;
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  } catch (...) {
    return "throw: without a handler";  // of a program that was made smaller
  }
  return "";
}

// The fault of program `seed`, and the smallest program with a fault of this kind.
std::string report_of(const Program& program, uint64_t seed, const std::string& fault) {
  const auto kind_of = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  Counts unused;
  const Program small = smallest(program, [&](const Program& candidate) {
    const std::string other = fault_of(candidate, seed, unused);
    return !other.empty() && kind_of(other) == kind_of(fault);
  });
  const std::string of_small = fault_of(small, seed, unused);
  return "--programs 1 --seed " + std::to_string(seed) + ": " + fault +
         "\nthe smallest: " + of_small + "\n" + Case(small, seed).text();
}

uint64_t programs = 50000, first_seed = 0;
constexpr int kParts = 10;  // shards of CTest take some each

class RandomNumbers : public ::testing::TestWithParam<int> {};

// spec: D23, D24, D27.c, D31, D36, D56.a, D61.a, D62.a, D65.a, D70.a, D71.a, D72.a, D84.a, D87.a,
//       D90.a //
TEST_P(RandomNumbers, DerivativesAgreeInAllModes) {
  const uint64_t part = static_cast<uint64_t>(GetParam());
  const uint64_t begin = first_seed + programs * part / kParts,
                 end = first_seed + programs * (part + 1) / kParts;
  Counts counts;
  int failures = 0;
  for (uint64_t seed = begin; seed < end && failures < 3; ++seed) {
    const Program program = Maker(seed).program();
    const std::string fault = fault_of(program, seed, counts);
    ++counts.programs;
    if (fault.empty()) continue;
    ++failures;
    ADD_FAILURE() << report_of(program, seed, fault);
  }
  std::printf(
      "%d programs from seed %llu, %d too wild, %d magnify rounding; of %d second derivatives %d "
      "vary too fast for differences\n",
      counts.programs, static_cast<unsigned long long>(begin), counts.wild, counts.unsteady,
      counts.second, counts.second_rough);
  if (counts.programs < 1000) return;  // of a few, many may be skipped
  EXPECT_LT(counts.wild, counts.programs / 50);
  EXPECT_LT(counts.unsteady, counts.programs / 50);
  EXPECT_LT(counts.second_rough, counts.second / 20);
}
INSTANTIATE_TEST_SUITE_P(Parts, RandomNumbers, ::testing::Range(0, kParts));

}  // namespace
}  // namespace etude::programs

// gtest's flags, --programs N and --seed S.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--programs") etude::programs::programs = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--seed") etude::programs::first_seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
