// SPDX-License-Identifier: Apache-2.0
// The set functions of the Array API: distinct elements, and membership. How many elements are
// distinct depends on the data; membership has the shape of its operand.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

constexpr std::string_view kNotSmooth =
    "which elements are distinct does not depend smoothly on them";

// Where each element of the ascending x was in the flat one; equal elements keep their order.
Tensor ascending_places(const Tensor& flat) {
  if (is_complex(flat.dtype())) {  // by real parts, equal ones by imaginary parts
    const Tensor by_imag = argsort(imag(flat));
    return take(by_imag, argsort(take(real(flat), by_imag)));
  }
  return argsort(flat.dtype() == kBool ? internal::cast(flat, kUInt8) : flat);
}

// The elements in order, and which of them are the first of equal ones.
struct Runs {
  Tensor sorted, places, is_first;
};

Runs runs_of(const Tensor& x) {
  const int64_t n = x.size();
  const Tensor flat = reshape(x, {n});
  Runs runs;
  runs.places = ascending_places(flat);
  runs.sorted = take(flat, runs.places);
  if (n == 0) {
    runs.is_first = internal::cast(runs.places, kBool);
    return runs;
  }
  const Tensor before = slice(runs.sorted, {0}, {n - 1}), after = slice(runs.sorted, {1}, {n});
  runs.is_first = concat({full({1}, true), not_equal(before, after)});
  return runs;
}

// The number of its distinct element for each of the sorted elements.
Tensor numbers_of(const Runs& runs) {
  return cumulative_sum(internal::cast(runs.is_first, kInt64)) - 1;
}

Values unique_values_of(Operands in, const Attrs&) {
  const Runs runs = runs_of(in[0]);
  return {boolean_mask(runs.sorted, runs.is_first)};
}

Values unique_counts_of(Operands in, const Attrs&) {
  const Runs runs = runs_of(in[0]);
  return {boolean_mask(runs.sorted, runs.is_first), bincount(numbers_of(runs))};
}

Tensor inverse_of(const Runs& runs, const Tensor& x) {
  return reshape(take(numbers_of(runs), argsort(runs.places)), x.shape().to_vector());
}

Values unique_inverse_of(Operands in, const Attrs&) {
  const Runs runs = runs_of(in[0]);
  return {boolean_mask(runs.sorted, runs.is_first), inverse_of(runs, in[0])};
}

Values unique_all_of(Operands in, const Attrs&) {
  const Runs runs = runs_of(in[0]);
  return {boolean_mask(runs.sorted, runs.is_first), boolean_mask(runs.places, runs.is_first),
          inverse_of(runs, in[0]), bincount(numbers_of(runs))};
}

Shape some_elements() {
  Shape shape{0};
  shape.set(0, kAny);
  return shape;
}

// Values, and the further results by their letters: n, as many numbers as there are values; x, one
// for each element of the operand.
template <char... kMore>
Types unique_type(const TypeCall& call) {
  return {call.make(call.dtype(0), some_elements()),
          call.make(kInt64, kMore == 'x' ? call.shape(0) : some_elements())...};
}

OpDef unique(std::string_view name, std::string_view doc, std::vector<std::string_view> results,
             TypeRule type, DataRule data) {
  return {
      .name = name,
      .doc = doc,
      .operands = {"x"},
      .results = std::move(results),
      .type = type,
      .data = data,
      .no_derivative = kNotSmooth,
      .samples = {.calls = {{{"[5]"}}, {{"[2,3]"}}, {{"[]"}}, {{"[0]"}}}},
  };
}

void define_unique(Registry& r) {
  r.define(unique("unique_values",
                  "The distinct elements of x, in ascending order. Complex numbers are ordered by "
                  "their real parts, then by their imaginary parts. Each NaN is distinct and comes "
                  "last. -0 and 0 are equal. The size of the result depends on the elements of x, "
                  "so staged functions refuse the op.",
                  {"values"}, unique_type<>, unique_values_of));
  r.define(unique("unique_counts",
                  "The distinct elements of x, as in unique_values, and their numbers of "
                  "occurrences, as int64.",
                  {"values", "counts"}, unique_type<'n'>, unique_counts_of));
  r.define(unique("unique_inverse",
                  "The distinct elements of x, as in unique_values, and for each element of x its "
                  "index among the distinct elements. The indices are int64 of the shape of x: x "
                  "is take(values, inverse_indices).",
                  {"values", "inverse_indices"}, unique_type<'x'>, unique_inverse_of));
  r.define(unique(
      "unique_all",
      "The distinct elements of x, as in unique_values. For each distinct element, the position of "
      "the first occurrence in the flat x and the number of occurrences. For each element of x, "
      "its index among the distinct elements. Positions, indices and numbers are int64.",
      {"values", "indices", "inverse_indices", "counts"}, unique_type<'n', 'x', 'n'>,
      unique_all_of));
}

// An element of x2 is between its two insertion points in the sorted x2.
Values lower_isin(Operands in, const Attrs& attrs) {
  const Tensor &x = in[0], sorted = sort(reshape(in[1], {-1}));
  Tensor found = searchsorted(sorted, x, {.side = "right"}) > searchsorted(sorted, x);
  if (is_floating(x.dtype())) found = logical_and(found, equal(x, x));  // NaN is equal to nothing
  return {attrs.flag("invert") ? logical_not(found) : found};
}

}  // namespace

void define_sets(Registry& r) {
  define_unique(r);
  r.define({
      .name = "isin",
      .kind = Kind::kComposition,
      .doc =
          "Whether each element of x1 is among the elements of x2, which has any shape. `invert` "
          "negates the result. NaN is not found. The cost is a sort of x2 and two searches.",
      .operands = {"x1", "x2"},
      .attrs = {{"invert", false}},
      .dtypes = kReal,
      .lower = lower_isin,
      .no_derivative = kPiecewiseConstant,
      .samples = {.calls = {{{"[2,3]", "[4]"}},
                            {{"[3]", "[2,2]"}, {{"invert", true}}},
                            {{"int32[4]", "int32[3]"}, {}, {{0, 4}, {0, 4}}},
                            {{"[2]", "[0]"}},
                            {{"[]", "[]"}}}},
      .errors = {{{"complex64[2]", "complex64[2]"},
                  "operand 'x1' is complex64, but must be one of"}},
  });
}

}  // namespace etude::ops
