// SPDX-License-Identifier: Apache-2.0
// Element-wise ops against the statements of the Python Array API standard:
// array_api_statements.inc lists the elements and the required results.
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/call/builtin.h"
#include "etude/core/op/registry.h"
#include "etude/ops.h"

namespace etude::array_api_elements_test {
namespace {

#include "tests/ops/values/array_api_statements.inc"

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;
const std::vector<double> kGrid = {0.0, -0.0, 0.5, -0.5, 1.0,  -1.0,  1.5,  -1.5,  2.0,  -2.0,
                                   2.5, -2.5, 3.0, -3.0, kInf, -kInf, kNan, -kNan, 0.25, 65504};

struct Statement {
  std::string text, op, first, second;
  std::vector<std::string> results;
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> parts(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(trimmed(part));
  return out;
}

std::vector<Statement> statements(const char* text) {
  std::vector<Statement> out;
  for (const std::string& line : parts(text, '\n')) {
    if (line.empty()) continue;
    const std::size_t open = line.find('('), close = line.find(')');
    const std::vector<std::string> when = parts(line.substr(open + 1, close - open - 1), ',');
    out.push_back({line, line.substr(0, open), when[0], when.size() > 1 ? when[1] : "",
                   parts(line.substr(line.find('=', close) + 1), ',')});
  }
  return out;
}

bool is_integer(double x) { return std::isfinite(x) && x == std::floor(x); }
bool is_odd(double x) { return is_integer(x) && std::fmod(x, 2) != 0; }

// Whether x is among the elements of a statement; `other` is the first operand of the call.
bool is_meant(const std::string& word, double x, double other) {
  using Test = std::function<bool(double, double)>;
  static const std::map<std::string, Test> tests = {
      {"any", [](double, double) { return true; }},
      {"nan", [](double a, double) { return std::isnan(a); }},
      {"notnan", [](double a, double) { return !std::isnan(a); }},
      {"nan with sign", [](double a, double) { return std::isnan(a) && std::signbit(a); }},
      {"nan without sign", [](double a, double) { return std::isnan(a) && !std::signbit(a); }},
      {"inf", [](double a, double) { return std::isinf(a); }},
      {"finite", [](double a, double) { return std::isfinite(a); }},
      {"nonzero", [](double a, double) { return std::isfinite(a) && a != 0; }},
      {"positive", [](double a, double) { return std::isfinite(a) && a > 0; }},
      {"negative", [](double a, double) { return std::isfinite(a) && a < 0; }},
      {"integer", [](double a, double) { return is_integer(a); }},
      {"fraction", [](double a, double) { return std::isfinite(a) && !is_integer(a); }},
      {"+0", [](double a, double) { return a == 0 && !std::signbit(a); }},
      {"-0", [](double a, double) { return a == 0 && std::signbit(a); }},
      {"odd >0", [](double a, double) { return a > 0 && is_odd(a); }},
      {"odd <0", [](double a, double) { return a < 0 && is_odd(a); }},
      {"not odd >0", [](double a, double) { return a > 0 && !is_odd(a); }},
      {"not odd <0", [](double a, double) { return a < 0 && !is_odd(a); }},
      {"|x|>1", [](double a, double) { return std::abs(a) > 1; }},
      {"|x|<1", [](double a, double) { return std::abs(a) < 1; }},
      {"|x|=1", [](double a, double) { return std::abs(a) == 1; }},
      {"other than 0", [](double a, double) { return a != 0; }},
      {"other than 1", [](double a, double) { return a != 1; }},
      {"minus x1", [](double a, double b) { return a == -b; }},
      {"equal to x1", [](double a, double b) { return a == b; }},
      {"other than x1", [](double a, double b) { return !std::isnan(a) && a != b; }},
  };
  const auto found = tests.find(word);
  if (found != tests.end()) return found->second(x, other);
  if (word[0] == '>') return x > std::stod(word.substr(1));
  if (word[0] == '<') return x < std::stod(word.substr(1));
  return x == std::stod(word);  // a number or an infinity
}

// The number that a word of a result means, if it is a number.
double number_of(const std::string& word, double x1, double x2) {
  static const std::map<std::string, double> fixed = {
      {"pi", kPi},       {"-pi", -kPi},       {"pi/2", kPi / 2},      {"-pi/2", -kPi / 2},
      {"pi/4", kPi / 4}, {"-pi/4", -kPi / 4}, {"3pi/4", 3 * kPi / 4}, {"-3pi/4", -3 * kPi / 4},
      {"true", 1},       {"false", 0}};
  if (const auto found = fixed.find(word); found != fixed.end()) return found->second;
  if (word == "x1") return x1;
  if (word == "x2") return x2;
  if (word == "|x1|") return std::abs(x1);
  if (word == "|x2|") return std::abs(x2);
  if (word == "-|x1|") return -std::abs(x1);
  return std::stod(word);
}

bool fits(const std::string& word, double got, double x1, double x2, double relative) {
  if (word == "nan") return std::isnan(got);
  if (word == "nan with sign") return std::isnan(got) && std::signbit(got);
  if (word == "nan without sign") return std::isnan(got) && !std::signbit(got);
  if (word == "inf") return std::isinf(got);
  if (word == "0") return got == 0;
  if (word == ">0") return got > 0;
  if (word == "<0") return got < 0;
  if (word == "positive sign") return !std::signbit(got);
  if (word == "negative sign") return got == 0 || std::signbit(got);
  if (word == "either pi/2") return std::abs(std::abs(got) - kPi / 2) < 2 * relative;
  const double want = number_of(word, x1, x2);
  if (want == 0 || std::isinf(want)) return got == want && std::signbit(got) == std::signbit(want);
  return std::abs(got - want) <= relative * std::abs(want);
}

// One of "+inf or nan".
bool fits_any(const std::string& words, double got, double x1, double x2, double relative) {
  const std::size_t at = words.find(" or ");
  if (at == words.npos) return fits(words, got, x1, x2, relative);
  return fits(words.substr(0, at), got, x1, x2, relative) ||
         (words.substr(at + 4) == "1 at +0" ? x2 == 0 && got == 1
                                            : fits(words.substr(at + 4), got, x1, x2, relative));
}

double precision(DType dtype) {
  return dtype == kBFloat16 ? 1e-2 : dtype == kFloat16 ? 1e-3 : dtype == kFloat64 ? 1e-14 : 1e-6;
}

Tensor run(const std::string& op, const std::vector<Tensor>& in) {
  const OperandList list{std::span<const Tensor>(in)};
  const Op& record = Registry::global().at(op);
  return internal::only(execute(record, list.view(), record.default_attrs(), CallSite::here()));
}

class ArrayApi : public testing::TestWithParam<DType> {};

// spec: T7.a, T8.a
TEST_P(ArrayApi, RealStatementsHold) {
  std::vector<double> left, right;
  for (const double a : kGrid) {
    for (const double b : kGrid) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const Tensor x1 = internal::cast(Tensor(left), GetParam());
  const Tensor x2 = internal::cast(Tensor(right), GetParam());
  std::map<std::string, std::vector<double>> results;
  for (const Statement& s : statements(kRealStatements)) {
    if (!Registry::global().at(s.op).operand_dtypes(0).contains(GetParam())) continue;
    std::vector<double>& got = results[s.op];
    if (got.empty()) {
      got = run(s.op, s.second.empty() ? std::vector{x1} : std::vector{x1, x2}).to_vector<double>();
    }
    int count = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const double a = left[i], b = right[i];
      const bool meant = is_meant(s.first, a, b) && (s.second.empty() || is_meant(s.second, b, a));
      if (!meant) continue;
      ++count;
      EXPECT_TRUE(fits_any(s.results[0], got[i], a, b, precision(GetParam())))
          << s.text << ": " << got[i] << " at " << a << ", " << b;
    }
    EXPECT_GT(count, 0) << s.text;
  }
}

// "If x_i, min_i or max_i is NaN, the result is NaN"; without bounds the elements stay.
TEST_P(ArrayApi, ClipPassesNanOn) {
  const auto at = [](double x) { return internal::cast(Tensor(x), GetParam()); };
  EXPECT_TRUE(isnan(clip(at(kNan), {.min = at(0), .max = at(1)})).item<bool>());
  EXPECT_TRUE(isnan(clip(at(0.5), {.min = at(kNan), .max = at(1)})).item<bool>());
  EXPECT_TRUE(isnan(clip(at(0.5), {.min = at(0), .max = at(kNan)})).item<bool>());
  EXPECT_TRUE(isnan(clip(at(kNan))).item<bool>());
  EXPECT_EQ(clip(at(-kInf), {.min = at(-2), .max = at(1)}).item<double>(), -2);
}

INSTANTIATE_TEST_SUITE_P(Floating, ArrayApi,
                         testing::Values(kFloat16, kBFloat16, kFloat32, kFloat64),
                         [](const auto& p) { return std::string(name(p.param)); });

using Complex = std::complex<double>;

std::vector<Complex> complex_grid() {
  const std::vector<double> sides = {0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, kInf, -kInf, kNan};
  std::vector<Complex> out;
  for (const double a : sides) {
    for (const double b : sides) out.emplace_back(a, b);
  }
  return out;
}

// "inf cis" and the like: infinities or zeros with the signs of cos(b) and of sin(b).
bool fits_complex(const Statement& s, Complex got, double b, double relative) {
  const std::string& re = s.results[0];
  const auto is_scaled = [](double value, double size, double sign) {
    return std::abs(value) == size && std::signbit(value) == std::signbit(sign);
  };
  if (re == "inf cis" || re == "zero cis") {
    const double size = re == "inf cis" ? kInf : 0;
    return is_scaled(got.real(), size, std::cos(b)) && is_scaled(got.imag(), size, std::sin(b));
  }
  if (s.results[1] == "zero sin") {
    return got.real() == std::stod(re) && is_scaled(got.imag(), 0, std::sin(b));
  }
  return fits_any(re, got.real(), 0, 0, relative) &&
         fits_any(s.results[1], got.imag(), 0, 0, relative);
}

class ComplexArrayApi : public testing::TestWithParam<DType> {};

// spec: T8.a
TEST_P(ComplexArrayApi, StatementsHoldAlsoForConjugates) {
  const std::vector<Complex> grid = complex_grid();
  const Tensor x = internal::cast(Tensor(grid), GetParam());
  std::map<std::string, std::vector<Complex>> results;
  for (const Statement& s : statements(kComplexStatements)) {
    std::vector<Complex>& got = results[s.op];
    bool is_real = false;
    if (got.empty()) {
      const Tensor y = run(s.op, {x});
      got = internal::cast(y.dtype() == kBool ? internal::cast(y, kFloat64) : y, kComplex128)
                .to_vector<Complex>();
    }
    is_real = s.op == "abs" || s.op.starts_with("is");
    int count = 0;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      const double a = grid[i].real();
      for (const double sign : {1.0, -1.0}) {
        const double b = sign * grid[i].imag();
        if (!is_meant(s.first, a, b) || !is_meant(s.second, b, a)) continue;
        ++count;
        const Complex value(got[i].real(), is_real ? got[i].imag() : sign * got[i].imag());
        EXPECT_TRUE(fits_complex(s, value, b, GetParam() == kComplex64 ? 1e-6 : 1e-14))
            << s.text << ": " << got[i] << " at " << grid[i];
      }
    }
    EXPECT_GT(count, 0) << s.text;
  }
}

// asin, atan, sin, cos and tan of complex numbers "as if implemented as" these.
TEST_P(ComplexArrayApi, CircularFunctionsFollowHyperbolicOnes) {
  const auto by_j = [](Complex z) { return Complex(-z.imag(), z.real()); };
  const auto over_j = [](Complex z) { return Complex(z.imag(), -z.real()); };
  std::vector<Complex> turned;
  for (const Complex z : complex_grid()) turned.push_back(by_j(z));
  const auto values = [](const std::string& op, const std::vector<Complex>& z) {
    return internal::cast(run(op, {internal::cast(Tensor(z), GetParam())}), kComplex128)
        .to_vector<Complex>();
  };
  const auto agree = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
    return a == b || std::abs(a - b) <= 1e-6 * std::abs(b);
  };
  for (const auto& [circular, hyperbolic] : std::map<std::string, std::string>{{"asin", "asinh"},
                                                                               {"atan", "atanh"},
                                                                               {"sin", "sinh"},
                                                                               {"cos", "cosh"},
                                                                               {"tan", "tanh"}}) {
    const std::vector<Complex> got = values(circular, complex_grid());
    const std::vector<Complex> want = values(hyperbolic, turned);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Complex w = circular == "cos" ? want[i] : over_j(want[i]);
      EXPECT_TRUE(agree(got[i].real(), w.real()) && agree(got[i].imag(), w.imag()))
          << circular << complex_grid()[i] << ": " << got[i] << ", not " << w;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Complex, ComplexArrayApi, testing::Values(kComplex64, kComplex128),
                         [](const auto& p) { return std::string(name(p.param)); });

}  // namespace
}  // namespace etude::array_api_elements_test
