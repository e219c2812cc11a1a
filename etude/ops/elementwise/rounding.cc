// SPDX-License-Identifier: Apache-2.0
// Rounding, classification and limits of single values.
#include <cmath>
#include <limits>

#include "etude/core/call/arg.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

OpDef rounding(std::string_view name, std::string_view doc, const ScalarDef& scalar) {
  return {
      .name = name,
      .kind = Kind::kElementwise,
      .doc = doc,
      .operands = {"x"},
      .dtypes = kReal,
      .scalar = scalar,
      .no_derivative = kPiecewiseConstant,
      .errors = {{{"complex64[2]"}, "operand 'x' is complex64, but must be one of"}},
  };
}

OpDef classification(std::string_view name, DTypeSet dtypes, std::string_view doc,
                     const ScalarDef& scalar) {
  return {
      .name = name,
      .kind = Kind::kElementwise,
      .doc = doc,
      .operands = {"x"},
      .dtypes = dtypes,
      .result_dtype = ResultDType::kBool,
      .scalar = scalar,
      .no_derivative = kPiecewiseConstant,
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  };
}

// The largest finite number of a floating dtype; of integers the question does not arise.
double largest(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return 65504;
    case kBFloat16:
      return 0x1.FEp127;
    case kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

void define_rounding_functions(Registry& r) {
  r.define(rounding("floor", "The largest integer not above x, in the dtype of x.",
                    values_of<1>([](auto x) { return math::floor(x); })));
  r.define(rounding("ceil", "The smallest integer not below x, in the dtype of x.",
                    values_of<1>([](auto x) { return math::ceil(x); })));
  r.define(rounding("round",
                    "The integer nearest to x, in the dtype of x. A number halfway between two "
                    "integers rounds to the even integer.",
                    values_of<1>([](auto x) { return math::round(x); })));
  r.define(rounding("trunc", "x without its fraction, in the dtype of x.",
                    values_of<1>([](auto x) { return math::trunc(x); })));
  r.define(classification("isfinite", kNumeric, "Whether x is neither infinite nor NaN.",
                          values_of<1>([](auto x) { return math::isfinite(x); })));
  r.define(classification("isinf", kNumeric, "Whether x is infinite.",
                          values_of<1>([](auto x) { return math::isinf(x); })));
  r.define(classification("isnan", kNumeric, "Whether x is NaN.",
                          values_of<1>([](auto x) { return math::isnan(x); })));
  r.define(classification("signbit", kReal,
                          "Whether x is negative. For -0 and NaN, the sign bit decides.",
                          values_of<1>([](auto x) { return math::signbit(x); })));
}

// At a bound the gradient goes to x, and none of it to the bound: the partials of maximum and
// minimum, which share it, would not do.
void define_clip_parts(Registry& r) {
  r.define({
      .name = "clip_low",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "The larger of x and min.",
      .operands = {"x", "min"},
      .dtypes = kReal,
      .scalar = values_of<2>([](auto x, auto low) { return math::maximum(x, low); }),
      .partials = partials_of<2>([](auto x, auto low, auto, auto t) {
        return math::list(math::where(x < low, 0.0, t), math::where(x < low, t, 0.0));
      }),
  });
  r.define({
      .name = "clip_high",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "The smaller of x and max.",
      .operands = {"x", "max"},
      .dtypes = kReal,
      .scalar = values_of<2>([](auto x, auto high) { return math::minimum(x, high); }),
      .partials = partials_of<2>([](auto x, auto high, auto, auto t) {
        return math::list(math::where(x > high, 0.0, t), math::where(x > high, t, 0.0));
      }),
  });
  r.define({
      .name = "clip_both",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "x between min and max; max where min is above max.",
      .operands = {"x", "min", "max"},
      .dtypes = kReal,
      .scalar = values_of<3>(
          [](auto x, auto low, auto high) { return math::minimum(math::maximum(x, low), high); }),
      .partials = partials_of<3>([](auto x, auto low, auto high, auto, auto t) {
        const auto below = x < low;
        const auto inside = math::where(below, 0.0, t);
        const auto at_low = math::where(below, t, 0.0);
        const auto above = math::maximum(x, low) > high;
        return math::list(math::where(above, 0.0, inside), math::where(above, 0.0, at_low),
                          math::where(above, t, 0.0));
      }),
  });
}

void define_clip(Registry& r) {
  r.define({
      .name = "clip",
      .kind = Kind::kComposition,
      .doc = "x with elements below `min` replaced by min and elements above `max` by max. "
             "An absent bound has no effect. The gradient at a bound goes to x.",
      .operands = {"x", "min?", "max?"},
      .dtypes = kReal,
      .lower =
          [](Operands in, const Attrs&) {
            OperandList list({&in[0]});
            if (in.has(1)) list.add(in[1]);
            if (in.has(2)) list.add(in[2]);
            const Operands given = list.view();
            const std::string_view part = given.size() == 3 ? "clip_both"
                                          : in.has(1)       ? "clip_low"
                                          : in.has(2)       ? "clip_high"
                                                            : "positive";
            return run_all(op(part), given);
          },
      .samples = {.calls = {{.operands = {"[2,3]", "[]", "[3]"},
                             .ranges = {{-2, 2}, {-1.5, -1}, {1, 1.5}}},
                            {.operands = {"[2,3]", "[3]", "-"}},
                            {.operands = {"[2,3]", "-", "[2,1]"}},
                            {.operands = {"[2,3]", "-", "-"}}}},
      .errors = {{{"int64[2]", "uint64[2]"}, "operand 'min' is uint64 and operand 'x' is int64"},
                 {{"complex64[2]"}, "operand 'x' is complex64, but must be one of"}},
  });
}

Values lower_nan_to_num(Operands in, const Attrs& attrs) {
  const DType dtype = in[0].dtype();
  if (is_integer(dtype)) return Values{in[0]};
  const Op& replace = op<"replace_nonfinite">();
  const double limit = largest(is_complex(dtype) ? real_dtype(dtype) : dtype);
  const double high = attrs.has("posinf") ? attrs.real("posinf") : limit;
  const double low = attrs.has("neginf") ? attrs.real("neginf") : -limit;
  const Attrs made = replace.attrs({attrs.real("nan"), high, low});
  if (!is_complex(dtype)) return run_all(replace, in, made);
  const auto replaced = [&](const Tensor& part) {
    return internal::cast(run(replace, {&part}, made), dtype);
  };
  return {add(replaced(real(in[0])),
              multiply(replaced(imag(in[0])), Tensor(std::complex<float>(0, 1))))};
}

void define_nan_to_num(Registry& r) {
  r.define({
      .name = "replace_nonfinite",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "x with NaN and the infinities replaced.",
      .operands = {"x"},
      .attrs = {{"nan", AttrKind::kReal}, {"posinf", AttrKind::kReal}, {"neginf", AttrKind::kReal}},
      .dtypes = kFloating,
      .scalar = scalar_of<1, 3>([](auto x, auto nan, auto high, auto low) {
        const auto infinite = math::where(math::isinf(x), math::where(x > 0.0, high, low), x);
        return math::where(math::isnan(x), nan, infinite);
      }),
      .samples = {.calls = {{{"[2,3]"}, {{"nan", 0.0}, {"posinf", 1.0}, {"neginf", -1.0}}}}},
  });
  r.define({
      .name = "nan_to_num",
      .kind = Kind::kComposition,
      .doc = "x with NaN replaced by `nan`, and infinities by `posinf` and `neginf`. The defaults "
             "of these are the largest and the lowest number of the dtype. Both parts of a complex "
             "x are replaced.",
      .operands = {"x"},
      .attrs = {{"nan", 0.0}, {"posinf", AttrKind::kReal, none}, {"neginf", AttrKind::kReal, none}},
      .dtypes = kNumeric,
      .lower = lower_nan_to_num,
      .samples = {.calls = {{{"[2,3]"}, {}}, {{"[3]"}, {{"nan", 1.0}, {"posinf", 2.0}}}}},
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  });
}

}  // namespace

void define_rounding(Registry& r) {
  define_rounding_functions(r);
  define_clip_parts(r);
  define_clip(r);
  define_nan_to_num(r);
}

}  // namespace etude::ops
