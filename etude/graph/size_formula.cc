// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/size_formula.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "etude/core/internal/convert.h"

namespace etude::internal {
namespace {

constexpr int kMostPower = 2;
// Quotients beyond these are more likely coincidences than rules of an op.
constexpr int64_t kMostDivisor = 64, kMostDivisorWithOffset = 16;

// The product at each point; absent if a product is out of range.
std::optional<std::vector<int64_t>> values_at(const SizeProduct& product,
                                              const SizePoints& points) {
  std::vector<int64_t> out;
  for (const std::vector<int64_t>& sizes : points) {
    const std::optional<int64_t> value = product.at(sizes);
    if (!value || *value > (int64_t{1} << 48)) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

bool gives(const SizeFormula& formula, std::span<const int64_t> seen, const SizePoints& points) {
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (formula.at(points[i]) != seen[i]) return false;
  }
  return true;
}

// 1: a multiple of the product; 2: an integer factor and offset; 3: with a divisor; 0: none.
int simplicity(const SizeFormula& f) {
  if (f.offset == 0) return f.divisor <= kMostDivisor ? 1 : 0;
  if (f.divisor == 1) return 2;
  return f.divisor <= kMostDivisorWithOffset ? 3 : 0;
}

// The line through two of the differing points.
std::optional<SizeFormula> line_through(const SizeProduct& product, std::span<const int64_t> seen,
                                        const std::vector<int64_t>& at) {
  std::size_t j = 1;
  while (j < at.size() && at[j] == at[0]) ++j;
  if (j == at.size()) return std::nullopt;
  constexpr int64_t kLargest = int64_t{1} << 30;  // so that nothing below is out of range
  int64_t factor = 0, divisor = at[j] - at[0];    // products are small; `seen` may be any numbers
  const bool is_far = __builtin_sub_overflow(seen[j], seen[0], &factor);
  if (is_far || factor > kLargest || factor < -kLargest || factor == 0) return std::nullopt;
  const int64_t common = std::gcd(factor, divisor) * (divisor < 0 ? -1 : 1);
  factor /= common;
  divisor /= common;
  __int128 offset =
      static_cast<__int128>(seen[0]) * divisor - static_cast<__int128>(factor) * at[0];
  if (offset > kLargest || offset < -kLargest) return std::nullopt;
  return SizeFormula{product, factor, static_cast<int64_t>(offset), divisor};
}

}  // namespace

std::optional<int64_t> SizeProduct::at(std::span<const int64_t> sizes) const {
  int64_t value = 1;
  for (std::size_t i = 0; i < powers.size(); ++i) {
    for (int k = 0; k < powers[i]; ++k) {
      if (__builtin_mul_overflow(value, sizes[i], &value)) return std::nullopt;
    }
  }
  return value;
}

std::string SizeProduct::to_string(std::span<const std::string> names) const {
  std::string text;
  for (std::size_t i = 0; i < powers.size(); ++i) {
    if (powers[i] == 0) continue;
    text += (text.empty() ? "" : "*") + names[i] + (powers[i] > 1 ? "^2" : "");
  }
  return text.empty() ? "1" : text;
}

std::vector<SizeProduct> size_products(std::size_t sizes) {
  const int most = sizes <= 2 ? 3 : 2;
  std::vector<SizeProduct> out;
  std::vector<uint8_t> powers(sizes);
  for (;;) {
    std::size_t i = 0;
    while (i < sizes && powers[i] == kMostPower) powers[i++] = 0;
    if (i == sizes) break;
    ++powers[i];
    if (std::accumulate(powers.begin(), powers.end(), 0) <= most) out.push_back({powers});
  }
  std::ranges::stable_sort(out, {}, [](const SizeProduct& p) {
    return std::accumulate(p.powers.begin(), p.powers.end(), 0);
  });
  return out;
}

std::optional<int64_t> SizeFormula::multiple_at(std::span<const int64_t> sizes) const {
  const std::optional<int64_t> base = product.at(sizes);
  int64_t value = 0;
  if (!base || __builtin_mul_overflow(*base, factor, &value) ||
      __builtin_add_overflow(value, offset, &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> SizeFormula::at(std::span<const int64_t> sizes) const {
  const std::optional<int64_t> multiple = multiple_at(sizes);
  if (!multiple || *multiple % divisor != 0) return std::nullopt;
  return *multiple / divisor;
}

bool SizeFormula::rounds_to(int64_t value, std::span<const int64_t> sizes) const {
  const std::optional<int64_t> multiple = multiple_at(sizes);
  if (!multiple || *multiple % divisor == 0) return false;
  const int64_t floor = *multiple / divisor - (*multiple < 0 ? 1 : 0);
  return value == floor || value == floor + 1;
}

std::string SizeFormula::to_string(std::span<const std::string> names) const {
  std::string text = product.to_string(names);
  if (factor != 1) text = fmt::format("{}*{}", factor, text);
  if (offset != 0) text += fmt::format(" {} {}", offset < 0 ? '-' : '+', std::abs(offset));
  if (divisor == 1) return text;
  if (offset != 0) text = fmt::format("({})", text);
  return fmt::format("{}/{}", text, divisor);
}

SizeNumber explain_sizes(std::span<const int64_t> seen, const SizePoints& points) {
  SizeNumber out;
  int best = 4;
  for (const SizeProduct& product : size_products(points[0].size())) {
    const auto at = values_at(product, points);
    if (!at) continue;
    const std::optional<SizeFormula> line = line_through(product, seen, *at);
    const int rank = line ? simplicity(*line) : 0;
    if (rank == 0 || rank > best || !gives(*line, seen, points)) continue;
    if (rank < best) out.formulas.clear();
    best = rank;
    out.formulas.push_back(*line);
  }
  return out;
}

std::optional<double> RealFormula::at(std::span<const int64_t> sizes) const {
  const std::optional<int64_t> top = over.at(sizes), bottom = under.at(sizes);
  if (!top || !bottom || *bottom + shift == 0) return std::nullopt;
  return static_cast<double>(numerator) * static_cast<double>(*top) /
         (static_cast<double>(denominator) * static_cast<double>(*bottom + shift));
}

bool RealFormula::is_unit_at(std::span<const int64_t> sizes) const {
  const std::optional<int64_t> top = over.at(sizes), bottom = under.at(sizes);
  if (!top || !bottom || *top == 0) return false;
  const auto whole = static_cast<__int128>(denominator) * (*bottom + shift);
  return whole % (static_cast<__int128>(numerator) * *top) == 0;
}

std::string RealFormula::to_string(std::span<const std::string> names) const {
  std::string top = over.to_string(names), bottom = under.to_string(names);
  if (numerator != 1)
    top = top == "1" ? fmt::format("{}", numerator) : fmt::format("{}*{}", numerator, top);
  if (shift != 0) bottom += fmt::format(" - {}", -shift);
  if (bottom == "1") return denominator == 1 ? top : fmt::format("{}/{}", top, denominator);
  if (denominator != 1) return fmt::format("{}/({}*({}))", top, denominator, bottom);
  return fmt::format("{}/({})", top, bottom);
}

double rounded_to(double value, DType dtype) {
  alignas(8) std::array<std::byte, 16> bits;
  convert_elements(bits.data(), dtype, &value, kFloat64, 1);
  convert_elements(&value, kFloat64, bits.data(), dtype, 1);
  return value;
}

namespace {

bool gives_reals(const RealFormula& formula, std::span<const double> seen, DType dtype,
                 const SizePoints& points) {
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::optional<double> value = formula.at(points[i]);
    if (!value ||
        std::bit_cast<uint64_t>(rounded_to(*value, dtype)) != std::bit_cast<uint64_t>(seen[i])) {
      return false;
    }
  }
  return true;
}

// Sets the quotient of the formula to the simplest that yields the values seen.
bool find_quotient(RealFormula& formula, std::span<const double> seen, DType dtype,
                   const SizePoints& points) {
  const std::optional<double> unit = formula.at(points[0]);
  if (!unit || *unit == 0) return false;
  const auto fits = [&](int64_t denominator) {
    const double numerator = std::nearbyint(seen[0] / *unit * static_cast<double>(denominator));
    if (std::abs(numerator) > 1e6 || numerator == 0) return false;
    RealFormula found = formula;
    found.numerator = static_cast<int64_t>(numerator);
    found.denominator = denominator;
    if (!gives_reals(found, seen, dtype, points)) return false;
    formula = found;
    return true;
  };
  for (int64_t denominator = 1; denominator <= kMostDivisor; ++denominator) {
    if (fits(denominator)) return true;
  }
  for (const int64_t denominator : {100, 1000, 10000, 100000, 1000000}) {
    if (fits(denominator)) return true;
  }
  return false;
}

}  // namespace

RealNumber explain_reals(std::span<const double> seen, DType dtype, const SizePoints& points) {
  const SizeProduct one{std::vector<uint8_t>(points[0].size())};
  const std::vector<SizeProduct> products = size_products(points[0].size());
  RealNumber out;
  const auto consider = [&](RealFormula formula) {
    if (find_quotient(formula, seen, dtype, points)) out.formulas.push_back(formula);
  };
  for (const SizeProduct& product : products) {
    consider({one, product});
    consider({product, one});
  }
  if (!out.formulas.empty()) return out;
  for (const SizeProduct& product : products) {
    consider({one, product, 1, 1, -1});
    consider({product, product, 1, 1, -1});
  }
  return out;
}

}  // namespace etude::internal
