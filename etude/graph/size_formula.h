// SPDX-License-Identifier: Apache-2.0
// Finds the formula over symbolic sizes that explains numbers which were observed at a few sizes.
// For symbolic graphs (symbolic_graph.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/core/dtype.h"

namespace etude::internal {

// The sizes at which numbers were observed: one list for each compared graph.
using SizePoints = std::vector<std::vector<int64_t>>;
// The maximum number of sizes in formulas.
inline constexpr std::size_t kMostSizes = 6;

// A product of sizes, each with a power: n, n*m, n^2. Without a factor it is 1.
struct SizeProduct {
  std::vector<uint8_t> powers;
  // The product at these sizes; absent if it exceeds an int64.
  std::optional<int64_t> at(std::span<const int64_t> sizes) const;
  std::string to_string(std::span<const std::string> names) const;
};
// All products that formulas use, simplest first.
std::vector<SizeProduct> size_products(std::size_t sizes);

// (factor * product + offset) / divisor.
struct SizeFormula {
  SizeProduct product;
  int64_t factor = 1, offset = 0, divisor = 1;
  // The value at these sizes; absent if it is not an integer.
  std::optional<int64_t> at(std::span<const int64_t> sizes) const;
  // Whether the formula at these sizes is not an integer, and `value` is a neighbouring integer.
  bool rounds_to(int64_t value, std::span<const int64_t> sizes) const;
  std::string to_string(std::span<const std::string> names) const;

 private:
  // divisor times the formula's value.
  std::optional<int64_t> multiple_at(std::span<const int64_t> sizes) const;
};

// The formula numerator * over / (denominator * (under + shift)), rounded to the dtype of the
// explained number.
struct RealFormula {
  SizeProduct over, under;
  int64_t numerator = 1, denominator = 1, shift = 0;
  std::optional<double> at(std::span<const int64_t> sizes) const;
  // Whether the formula at these sizes is 1 over an integer.
  bool is_unit_at(std::span<const int64_t> sizes) const;
  std::string to_string(std::span<const std::string> names) const;
};

// A number of a symbolic graph: all formulas of the simplest kind that explain the observed values.
// If they disagree at other sizes, a further traced graph must decide.
template <class Formula, class Value>
struct Explained {
  std::vector<Formula> formulas;
  // The value at these sizes; absent if the formulas disagree or have no value.
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

// The formulas with the value seen[i] at points[i] for each i; none if there is no such formula.
// The values in `seen` are not all equal.
SizeNumber explain_sizes(std::span<const int64_t> seen, const SizePoints& points);
// The same for real numbers that were rounded to `dtype`, bit for bit.
RealNumber explain_reals(std::span<const double> seen, DType dtype, const SizePoints& points);

// `value` rounded to the dtype.
double rounded_to(double value, DType dtype);

}  // namespace etude::internal
