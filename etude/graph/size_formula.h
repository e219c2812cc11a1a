// SPDX-License-Identifier: Apache-2.0
// Numbers that follow from sizes: which formula over named sizes gives what was seen at a few
// points. For families (family.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/core/dtype.h"

namespace etude::internal {

// The sizes at which something was seen: one list for each graph that is compared.
using SizePoints = std::vector<std::vector<int64_t>>;
// More sizes than these at once are explained by nothing.
inline constexpr std::size_t kMostSizes = 6;

// A product of sizes, each with a power: n, n*m, n^2. Without a factor it is 1.
struct SizeProduct {
  std::vector<uint8_t> powers;
  // Absent if it is beyond what an int64 holds.
  std::optional<int64_t> at(std::span<const int64_t> sizes) const;
  std::string to_string(std::span<const std::string> names) const;
};
// All that formulas use, simplest first.
std::vector<SizeProduct> size_products(std::size_t sizes);

// (factor * product + offset) / divisor.
struct SizeFormula {
  SizeProduct product;
  int64_t factor = 1, offset = 0, divisor = 1;
  // Absent if it is no integer.
  std::optional<int64_t> at(std::span<const int64_t> sizes) const;
  // Whether it is no integer, and `value` is one of the two next to it.
  bool rounds_to(int64_t value, std::span<const int64_t> sizes) const;
  std::string to_string(std::span<const std::string> names) const;

 private:
  // divisor times it.
  std::optional<int64_t> multiple_at(std::span<const int64_t> sizes) const;
};

// numerator * over / (denominator * (under + shift)), rounded to the dtype of what it explains.
struct RealFormula {
  SizeProduct over, under;
  int64_t numerator = 1, denominator = 1, shift = 0;
  std::optional<double> at(std::span<const int64_t> sizes) const;
  // Whether it is 1 over an integer.
  bool is_unit_at(std::span<const int64_t> sizes) const;
  std::string to_string(std::span<const std::string> names) const;
};

// A number of a family: all formulas of the simplest kind that give what was seen. Where they do
// not agree at other sizes, one more point must tell them apart.
template <class Formula, class Value>
struct Explained {
  std::vector<Formula> formulas;
  // Absent if the formulas do not agree on it, or give none.
  std::optional<Value> at(std::span<const int64_t> sizes) const {
    const std::optional<Value> first = formulas.front().at(sizes);
    for (const Formula& other : formulas) {
      if (other.at(sizes) != first) return std::nullopt;
    }
    return first;
  }
};
using SizeNumber = Explained<SizeFormula, int64_t>;
using RealNumber = Explained<RealFormula, double>;

// What gives seen[i] at points[i] for each i; no formulas if nothing does. Not all that was seen is
// equal.
SizeNumber explain_sizes(std::span<const int64_t> seen, const SizePoints& points);
// The same for real numbers that were rounded to `dtype`, bit for bit.
RealNumber explain_reals(std::span<const double> seen, DType dtype, const SizePoints& points);

// `value` as the dtype holds it.
double rounded_to(double value, DType dtype);

}  // namespace etude::internal
