// SPDX-License-Identifier: Apache-2.0
// Spread, norms and differences, made of reductions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/dtype_functions.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/reduce/norm_root.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

Ints wide(const std::vector<int>& axes) { return {axes.begin(), axes.end()}; }

struct Spread {
  Tensor mean, var;  // reduced axes have size 1
};

Spread spread_of(const Tensor& x, const std::vector<int>& axes, double correction) {
  const Tensor center = mean(x, {.axis = wide(axes), .keepdims = true});
  const Tensor from = x - center;
  const Tensor squares = sum(from * from, {.axis = wide(axes), .keepdims = true});
  const double divisor = static_cast<double>(reduced_count(x.shape(), axes)) - correction;
  // No degree of freedom is left: NaN for all elements, instead of the result of a division by zero
  // or by a negative number.
  return {center, squares / (divisor > 0 ? divisor : std::numeric_limits<double>::quiet_NaN())};
}

Tensor result(const Tensor& y, const Tensor& x, const std::vector<int>& axes, const Attrs& attrs) {
  return reshaped(y, reduced_shape(x.shape(), axes, attrs.flag("keepdims")));
}

// A root whose derivative at 0 is 0: a distance of 0 has no direction.
Tensor distance(const Tensor& squared) { return run(op<"distance_root">(), {&squared}); }

template <bool kRoot>
Values lower_var(Operands in, const Attrs& attrs) {
  const std::vector<int> axes = axes_of(attrs, in[0].rank());
  const Tensor var = spread_of(in[0], axes, attrs.real("correction")).var;
  return {result(kRoot ? distance(var) : var, in[0], axes, attrs)};
}

Values lower_moments(Operands in, const Attrs& attrs) {
  const std::vector<int> axes = axes_of(attrs, in[0].rank());
  const Spread spread = spread_of(in[0], axes, 0);
  return {result(spread.mean, in[0], axes, attrs), result(spread.var, in[0], axes, attrs)};
}

// A power of two near the largest element of x, as float64, whose reciprocal is a normal number.
Tensor scale_of(const Tensor& x) {
  constexpr double kSmall = 1e-200;  // of float64: lengths can be divided by it
  const FInfo info = finfo(x.dtype());
  const double least = std::max(info.smallest_normal, kSmall);
  const Tensor largest = internal::cast(max(abs(internal::stop_gradient(x))), kFloat64);
  return exp2(floor(log2(clip(largest, {.min = least, .max = info.max / 4}))));
}

Values lower_scaled_squares(Operands in, const Attrs&) {
  std::vector<Tensor> parts;
  Tensor squares, scale;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor& x = in[i];
    if (x.size() == 0) continue;
    const Tensor real = is_complex(x.dtype()) ? abs(x) : x;
    // Sums of many squares leave the range and the digits of 16 bits.
    parts.push_back(itemsize(real.dtype()) < 4 ? internal::cast(real, kFloat32) : real);
    const Tensor own = scale_of(parts.back());
    scale = scale.has_value() ? maximum(scale, own) : own;
  }
  if (parts.empty()) {
    const Type* number = intern_type(kFloat64, Shape{}, in.size() > 0 ? in[0].device() : Device());
    return {internal::full(number, 0), internal::full(number, 1)};
  }
  for (const Tensor& x : parts) {
    const Tensor unit = x / internal::cast(scale, x.dtype());
    const Tensor more = internal::cast(sum(unit * unit), kFloat64);
    squares = squares.has_value() ? squares + more : more;
  }
  return {squares, scale};
}

Values lower_length(Operands in, const Attrs&) {
  const Values both = lower_scaled_squares(in, {});
  return {distance(both[0]) * both[1]};
}

Types norm_root_type(const TypeCall& call) {
  const Shape shape =
      reduced_shape(call.shape(0), axes_of(call.attrs, call.rank(0)), call.attrs.flag("keepdims"));
  ETUDE_REQUIRE(
      call.shape(1) == shape,
      "operand 'squares' has shape {}, but must have {}: the shape of x {} without the axes",
      call.shape(1).to_string(), shape.to_string(), call.shape(0).to_string());
  return {call.types[1]};
}

void norm_root_kernel(const PrepareCall& call) {
  kernels::cpu::prepare_norm_root(call, axes_of(call.attrs, call.shape(0).rank()));
}

// ct x / y, and 0 where y is 0. Neither the square of y nor 1 / y, which leave the range.
Values norm_root_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &y = call.out[0];
  const std::vector<int> axes = axes_of(call.attrs, x.rank());
  const Tensor divisor = where(y > 0.0, y, std::numeric_limits<double>::infinity());
  const Tensor direction = x / with_axes(divisor, x.shape(), axes),
               ct = with_axes(call.ct(), x.shape(), axes);
  return {run(op<"strong_product">(), {&ct, &direction}), Tensor()};
}

Tensor euclidean(const Tensor& x, const SumOptions& over, const Attrs& attrs) {
  const Tensor squares = sum(x * x, over);
  return run(op<"norm_root">(), {&x, &squares}, {attrs.value("axis"), attrs.value("keepdims")});
}

Values lower_norm(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const std::vector<int> axes = axes_of(attrs, x.rank());
  const double order = attrs.real("ord");
  const SumOptions over{.axis = wide(axes), .keepdims = attrs.flag("keepdims")};
  const bool is_real = !is_complex(x.dtype());
  if (order == 2) return {euclidean(is_real ? x : abs(x), over, attrs)};
  const Tensor size = abs(x);
  if (order == 1) return {sum(size, over)};
  if (order == 0) return {sum(internal::cast(size > 0, size.dtype()), over)};
  if (std::isinf(order)) {
    return {order > 0 ? max(size, {.axis = over.axis, .keepdims = over.keepdims})
                      : min(size, {.axis = over.axis, .keepdims = over.keepdims})};
  }
  return {pow(sum(pow(size, order), over), 1 / order)};
}

constexpr int64_t kMaxDifferences = 1000;  // each pass is three calls

Values lower_diff(Operands in, const Attrs& attrs) {
  const int axis = normalize_axis(attrs.integer("axis"), in[0].rank());
  const auto a = static_cast<std::size_t>(axis);
  const int64_t n = attrs.integer("n");
  ETUDE_REQUIRE(n >= 0, "n is {}, but must be 0 or more", n);
  ETUDE_REQUIRE(std::min(n, in[0].shape()[axis]) <= kMaxDifferences,
                "n is {} for axis {} of {}, but at most {} passes are made. Use a smaller n", n,
                axis, in[0].shape().to_string(), kMaxDifferences);
  Tensor y = in[0];
  for (int64_t i = 0; i < n && y.shape()[axis] > 0; ++i) {
    Ints start(static_cast<std::size_t>(y.rank()), 0), stop = y.shape().to_vector();
    start[a] = 1;
    const Tensor upper = run(op<"slice">(), {&y}, {start, stop, none});
    start[a] = 0;
    stop[a] -= 1;
    const Tensor lower = run(op<"slice">(), {&y}, {start, stop, none});
    y = upper - lower;
  }
  return {y};
}

std::vector<ErrorCase> statistic_errors() {
  return {
      {{"float32[2,3]"}, "axis 2 is outside [-2, 2)", {{"axis", Ints{2}}}, ErrorCode::kOutOfRange},
      {{"float32[2,3]"}, "axis -1 is given twice", {{"axis", Ints{1, -1}}}}};
}

Samples statistic_samples() {
  Samples samples;
  samples.calls = {{{"[2,3]"}},
                   {{"[2,3,4]"}, {{"axis", Ints{1}}}},
                   {{"[2,3,4]"}, {{"axis", Ints{0, -1}}, {"keepdims", true}}}};
  samples.ulp = 8;
  return samples;
}

std::vector<AttrDef> var_attrs() {
  return {{"axis", AttrKind::kInts, none}, {"correction", 0.0}, {"keepdims", false}};
}

void define_spread(Registry& r) {
  r.define({
      .name = "distance_root",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "Square root of x whose derivative at 0 is 0.",
      .operands = {"x"},
      .dtypes = kFloating,
      // The derived partial would be infinite at 0.
      .scalar = values_of<1>([](auto x) { return math::sqrt(x); }),
      .partials = partials_of<1>([](auto, auto y, auto t) {
        return math::list(math::where(y > 0.0, t * 0.5 / math::where(y > 0.0, y, 1.0), 0.0));
      }),
      .samples = {.ranges = {{0.5, 2}}},
  });
  r.define({
      .name = "var",
      .kind = Kind::kComposition,
      .doc = "Variance over the given axes, or over all: the sum of squared distances from the "
             "mean, divided by n - correction for n elements. The result is NaN if n - correction "
             "is not positive.",
      .operands = {"x"},
      .attrs = var_attrs(),
      .dtypes = kFloating,
      .lower = lower_var<false>,
      .samples = statistic_samples(),
      .errors = statistic_errors(),
  });
  r.define({
      .name = "std",
      .kind = Kind::kComposition,
      .doc = "Standard deviation over the given axes, or over all: the square root of var. The "
             "derivative is 0 where all elements are equal.",
      .operands = {"x"},
      .attrs = var_attrs(),
      .dtypes = kFloating,
      .lower = lower_var<true>,
      .samples = statistic_samples(),
      .errors = statistic_errors(),
  });
  r.define({
      .name = "moments",
      .kind = Kind::kComposition,
      .doc = "Mean and biased variance over the given axes, or over all.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInts, none}, {"keepdims", false}},
      .results = {"mean", "var"},
      .dtypes = kFloating,
      .lower = lower_moments,
      .samples = statistic_samples(),
      .errors = statistic_errors(),
  });
}

// Lengths without overflow or underflow of squares, for one tensor or a whole model.
void define_lengths(Registry& r) {
  Samples samples;
  samples.calls = {{{"[2,3]"}}, {{"[2,3]", "[4]", "[]"}}, {{"[0]", "[2]"}}, {{"[0]"}}};
  samples.ranges = {{1.1, 1.9}};  // of one scale, which is a constant to derivatives
  samples.ulp = 8;
  r.define({
      .name = "scaled_squares",
      .space = "internal",
      .kind = Kind::kComposition,
      .doc = "The sum of (x / scale)^2 over all elements of all xs, and scale, a power of two near "
             "the largest of them: no square overflows or vanishes. Both are float64. The scale "
             "has no derivative.",
      .operands = {{"xs...", kFloatingComplex}},
      .results = {"squares", "scale"},
      .lower = lower_scaled_squares,
      .samples = samples,
  });
  r.define({
      .name = "length",
      .space = "internal",
      .kind = Kind::kComposition,
      .doc = "The root of the sum of the squares of all elements of all xs, float64, also where "
             "squares leave the range. Its derivative at 0 is 0.",
      .operands = {{"xs...", kFloatingComplex}},
      .lower = lower_length,
      .samples = samples,
  });
  r.define({
      .name = "norm_root",
      .space = "internal",
      .doc = "The Euclidean norm of x over the given axes, or over all: the root of `squares`, the "
             "sum of its squares there, and by the elements of x where squares left the range. The "
             "derivative is by x, and 0 where the norm is.",
      .operands = {"x", "squares"},
      .attrs = {{"axis", AttrKind::kInts, none}, {"keepdims", false}},
      .dtypes = kFloating,
      .type = norm_root_type,
      .kernels = {.cpu = norm_root_kernel},
      .vjp = norm_root_vjp,
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[2,3]", "[]"}},
                            {{"[2,3,4]", "[2,4]"}, {{"axis", Ints{1}}}},
                            {{"[2,3,4]", "[1,3,1]"}, {{"axis", Ints{0, -1}}, {"keepdims", true}}},
                            {{"[]", "[]"}}},
                  .ranges = {{0.5, 2}, {0.5, 2}},
                  .no_gradient_check = "squares follow from x"},
      .errors = {{{"float32[2,3]", "float32[3]"}, "operand 'squares' has shape [3]"},
                 {{"float32[2]", "float32[]"},
                  "axis 1 is outside [-1, 1)",
                  {{"axis", Ints{1}}},
                  ErrorCode::kOutOfRange}},
  });
}

}  // namespace

void define_statistics(Registry& r) {
  define_spread(r);
  define_lengths(r);
  const double infinity = std::numeric_limits<double>::infinity();
  Samples norms = statistic_samples();
  norms.calls.push_back({{"[2,3]"}, {{"ord", 1.0}, {"axis", Ints{1}}}});
  norms.calls.push_back({{"[2,3]"}, {{"ord", infinity}, {"axis", Ints{1}}}});
  norms.calls.push_back({{"[2,3]"}, {{"ord", 3.0}, {"axis", Ints{0}}}});
  norms.ranges = {{0.5, 2}};
  r.define({
      .name = "norm",
      .kind = Kind::kComposition,
      .doc = "Vector norm over the given axes, or of all elements: sum(|x|^ord)^(1 / ord). For "
             "infinity it is the largest magnitude, for 0 the number of nonzero elements. The "
             "derivative of the Euclidean norm at 0 is 0.",
      .operands = {"x"},
      .attrs = {{"ord", 2.0}, {"axis", AttrKind::kInts, none}, {"keepdims", false}},
      .dtypes = kFloatingComplex,
      .lower = lower_norm,
      .samples = norms,
      .errors = statistic_errors(),
  });
  r.define({
      .name = "diff",
      .kind = Kind::kComposition,
      .doc = "Differences of neighbours along an axis, taken n times.",
      .operands = {"x"},
      .attrs = {{"axis", -1}, {"n", 1}},
      .dtypes = kNumeric,
      .lower = lower_diff,
      .samples = {.calls = {{{"[5]"}},
                            {{"[4,3]"}, {{"axis", int64_t{0}}, {"n", int64_t{2}}}},
                            {{"[2]"}, {{"n", int64_t{3}}}}}},
      .errors =
          {{{"float32[3]"}, "n is -1", {{"n", int64_t{-1}}}},
           {{"float32[2000]"}, "at most 1000 passes are made", {{"n", int64_t{1001}}}},
           {{"float32[3]"}, "axis 1 is outside", {{"axis", int64_t{1}}}, ErrorCode::kOutOfRange}},
  });
}

}  // namespace etude::ops
