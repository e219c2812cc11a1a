// SPDX-License-Identifier: Apache-2.0
// Random programs on numbers in reverse, forward and nested modes: equal values and branches, equal
// derivatives, and those of central differences where the program is smooth nearby. Program n is
// made from seed n alone. A failure prints the program, and how to run it alone:
//
//   ETUDE_TEST_SEED=4711 ETUDE_TEST_CASES=1 build/dev/bin/random_numbers_test
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"
#include "tests/property/number_machine.h"
#include "tests/property/number_maker.h"

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

// How many programs have such large terms that nothing but values is compared, how many derivatives
// were compared with central differences, and how many could not be: a branch
// is decided otherwise nearby, or differences of two widths or with more digits differ.
struct Counts {
  int programs = 0, wild = 0, compared = 0, crossed = 0, rough = 0, second = 0, second_rough = 0;
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
  explicit Case(uint64_t seed) : maker_(seed), program_(maker_.program()) {
    x_ = numbers(kInputs);
    direction_ = numbers(kInputs);
    y_ = run_(x_);
    decisions_ = trace_.decisions;
    weights_ = numbers(y_.size());
  }

  const Program& program() const { return program_; }
  const Vector& x() const { return x_; }

  // Whether terms on the way are so large that their rounding hides derivatives.
  bool is_wild() const { return !(scale_ < 1e6); }

  void check_first_order(Counts& counts) {
    for (const double y : y_) require(std::isfinite(y), "the plain run gives no number");
    check_values();
    counts.wild += is_wild() ? 1 : 0;
    if (is_wild()) return;
    check_forward();
    check_reverse();
    // In more digits a loop that magnifies rounding goes elsewhere: no difference says anything.
    const long double exact = weighted_(std::vector<long double>(x_.begin(), x_.end()));
    is_steady_ = std::abs(exact - dot(weights_, y_)) < 1e-10L * scale_;
    for (std::size_t i = 0; i < kInputs; ++i) check_differences(i, counts);
  }

  // Along a direction: forward over reverse, reverse over reverse and reverse over forward.
  void check_second_order(Counts& counts) {
    const Weighted& f = weighted_;
    const Vector& v = direction_;
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
                 over_forward = gradient(along, x_);
    double scale = scale_ * scale_;
    for (const Vector& row : rows) scale += size_of(row);
    for (std::size_t i = 0; i < kInputs; ++i) {
      const std::string name = "second derivative " + std::to_string(i);
      for (std::size_t j = 0; j < i; ++j) {
        require_near(name + ", symmetry", rows[i][j], rows[j][i], 1e-10 * scale);
      }
      require_near(name + ", hvp and hessian", product[i], dot(rows[i], v), 1e-10 * scale);
      require_near(name + ", reverse over reverse", twice[i], product[i], 1e-10 * scale);
      require_near(name + ", reverse over forward", over_forward[i], product[i], 1e-10 * scale);
    }
    check_second_differences(product, scale, counts);
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

  // The central difference of width 2 h; none where a branch is decided otherwise.
  template <class T>
  bool difference(std::size_t i, T h, T& out) {
    T sides[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<T> x(x_.begin(), x_.end());
      x[i] += side == 0 ? -h : h;
      sides[side] = weighted_(x);
      if (trace_.decisions != decisions_) return false;
    }
    out = (sides[1] - sides[0]) / (2 * h);
    return true;
  }
  void check_differences(std::size_t i, Counts& counts) {
    const long double h = 1e-6L;
    long double wide = 0, narrow = 0;
    ++counts.compared;
    if (!difference(i, h, wide) || !difference(i, h / 2, narrow)) {
      ++counts.crossed;
      return;
    }
    if (!is_steady_ || std::abs(wide - narrow) > 1e-6L * scale_) {
      ++counts.rough;
      return;
    }
    require_near("derivative " + std::to_string(i) + " and central difference", slopes_[i],
                 static_cast<double>(narrow), 1e-5 * scale_);
  }
  void check_second_differences(const Vector& product, double scale, Counts& counts) {
    Vector differences[2];
    for (int k = 0; k < 2; ++k) {
      const double h = k == 0 ? 1e-5 : 5e-6;
      Vector sides[2] = {x_, x_};
      for (std::size_t i = 0; i < kInputs; ++i) {
        sides[0][i] -= h * direction_[i];
        sides[1][i] += h * direction_[i];
      }
      for (Vector& side : sides) {
        side = gradient(weighted_, side);
        if (trace_.decisions != decisions_) return;
      }
      for (std::size_t i = 0; i < kInputs; ++i) {
        differences[k].push_back((sides[1][i] - sides[0][i]) / (2 * h));
      }
    }
    for (std::size_t i = 0; i < kInputs; ++i) {
      ++counts.second;
      if (!is_steady_ || std::abs(differences[0][i] - differences[1][i]) > 1e-5 * (1 + scale)) {
        ++counts.second_rough;
        continue;
      }
      require_near("second derivative " + std::to_string(i) + " and central difference", product[i],
                   differences[1][i], 1e-4 * (1 + scale));
    }
  }

  Maker maker_;
  Program program_;
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

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

// What is wrong with case `seed`, with its program; or "".
std::string fault_of(uint64_t seed, Counts& counts) {
  Case made(seed);
  std::string fault;
  try {
    made.check_first_order(counts);
    if (seed % 4 == 0 && !made.is_wild()) made.check_second_order(counts);
  } catch (const Fault& f) {
    fault = f.text;
  } catch (const std::exception& error) {
    fault = std::string("an exception: ") + error.what();
  }
  if (fault.empty()) return "";
  char at[128];
  std::snprintf(at, sizeof at, "ETUDE_TEST_SEED=%llu ETUDE_TEST_CASES=1\nx = {%.17g, %.17g, %.17g}",
                static_cast<unsigned long long>(seed), made.x()[0], made.x()[1], made.x()[2]);
  return fault + "\n" + at + "\n" + made.program().text();
}

// spec: D23, D24, D27, D31, D36, D56, D61, D62, D65, D70, D71, D72, D84, D87, D90
TEST(RandomNumbers, DerivativesAgreeInAllModes) {
  const uint64_t first = number_from_environment("ETUDE_TEST_SEED", 0);
  const uint64_t cases = number_from_environment("ETUDE_TEST_CASES", 10000);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + cases - 1));
  Counts counts;
  int failures = 0;
  for (uint64_t seed = first; seed < first + cases && failures < 5; ++seed) {
    const std::string fault = fault_of(seed, counts);
    ++counts.programs;
    if (fault.empty()) continue;
    ++failures;
    ADD_FAILURE() << fault;
  }
  std::printf(
      "%d programs, %d too wild; of %d derivatives %d have a branch that is decided otherwise "
      "nearby, %d vary too fast for differences; of %d second derivatives %d\n",
      counts.programs, counts.wild, counts.compared, counts.crossed, counts.rough, counts.second,
      counts.second_rough);
  if (counts.programs < 1000) return;  // of a few, many may be skipped
  EXPECT_LT(counts.wild, counts.programs / 50);
  EXPECT_LT(counts.crossed + counts.rough, counts.compared / 50);
  EXPECT_LT(counts.second_rough, counts.second / 50);
}

}  // namespace
}  // namespace etude::programs
