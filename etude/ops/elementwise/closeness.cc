// SPDX-License-Identifier: Apache-2.0
// Whether tensors are equal, exactly or nearly, element by element and as a whole.
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

std::vector<AttrDef> tolerances() { return {{"rtol", 1e-5}, {"atol", 1e-8}, {"equal_nan", false}}; }

// Integers compare as float64, in which all up to 2^53 are exact.
Values lower_isclose(Operands in, const Attrs& attrs) {
  const double rtol = attrs.real("rtol"), atol = attrs.real("atol");
  const bool equal_nan = attrs.flag("equal_nan");
  const DType dtype = in[0].dtype();
  if (is_complex(dtype)) {
    const Tensor distance = abs(subtract(in[0], in[1]));
    const Tensor near = less_equal(distance, add(multiply(abs(in[1]), rtol), atol));
    const Tensor finite = logical_and(isfinite(in[0]), isfinite(in[1]));
    Tensor close = logical_or(equal(in[0], in[1]), logical_and(finite, near));
    if (equal_nan) close = logical_or(close, logical_and(isnan(in[0]), isnan(in[1])));
    return {close};
  }
  const bool whole = !is_floating(dtype);
  const Tensor x1 = whole ? internal::cast(in[0], kFloat64) : in[0];
  const Tensor x2 = whole ? internal::cast(in[1], kFloat64) : in[1];
  return run_all(op<"isclose_floating">(), {&x1, &x2}, {rtol, atol, equal_nan ? 1.0 : 0.0});
}

void define_isclose(Registry& r) {
  r.define({
      .name = "isclose_floating",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc =
          "Whether |x1 - x2| <= atol + rtol |x2|, or both are equal, or both NaN where asked for.",
      .operands = {"x1", "x2"},
      .attrs = {{"rtol", AttrKind::kReal},
                {"atol", AttrKind::kReal},
                {"equal_nan", AttrKind::kReal}},
      .dtypes = kFloating,
      .result_dtype = ResultDType::kBool,
      .scalar = values_of<2, 3>([](auto x1, auto x2, auto rtol, auto atol, auto equal_nan) {
        const auto near = math::abs(x1 - x2) <= atol + rtol * math::abs(x2);
        const auto finite = math::logical_and(math::isfinite(x1), math::isfinite(x2));
        const auto nans = math::logical_and(math::isnan(x1), math::isnan(x2));
        const auto same = math::logical_or(x1 == x2, math::logical_and(nans, equal_nan != 0.0));
        return math::logical_or(same, math::logical_and(finite, near));
      }),
      .no_derivative = kPiecewiseConstant,
      .samples = {.calls = {{{"[2,3]", "[3]"},
                             {{"rtol", 0.5}, {"atol", 0.1}, {"equal_nan", 0.0}}}}},
  });
  r.define({
      .name = "isclose",
      .kind = Kind::kComposition,
      .doc = "Whether |x1 - x2| <= atol + rtol * |x2|, element by element. An infinity is close "
             "only to itself. NaN is close to NaN only with equal_nan.",
      .operands = {"x1", "x2"},
      .attrs = tolerances(),
      .lower = lower_isclose,
      .no_derivative = kPiecewiseConstant,
      .samples = {.calls = {{{"[2,3]", "[3]"}}, {{"[2,3]", "[2,3]"}, {{"atol", 0.5}}}}},
      .errors = {{{"int64[2]", "uint64[2]"}, "operand 'x2' is uint64 and operand 'x1' is int64"}},
  });
}

}  // namespace

void define_closeness(Registry& r) {
  define_isclose(r);
  r.define({
      .name = "allclose",
      .kind = Kind::kComposition,
      .doc = "Whether all elements of x1 and x2 are close by the rule of isclose. The result is a "
             "bool scalar.",
      .operands = {"x1", "x2"},
      .attrs = tolerances(),
      .lower =
          [](Operands in, const Attrs& attrs) {
            const IscloseOptions options{.rtol = attrs.real("rtol"),
                                         .atol = attrs.real("atol"),
                                         .equal_nan = attrs.flag("equal_nan")};
            return Values{all(isclose(in[0], in[1], options))};
          },
      .no_derivative = kPiecewiseConstant,
      .samples = {.calls = {{{"[2,3]", "[3]"}}, {{"[2,3]", "[2,3]"}, {{"atol", 8.0}}}}},
      .errors = {{{"float32[2,3]", "float32[4]"}, "sizes 3 and 4 on axis -1"}},
  });
  r.define({
      .name = "array_equal",
      .kind = Kind::kComposition,
      .doc =
          "Whether x1 and x2 have the same shape and equal elements. The result is a bool scalar.",
      .operands = {"x1", "x2"},
      .lower =
          [](Operands in, const Attrs&) {
            if (in[0].shape() == in[1].shape()) return Values{all(equal(in[0], in[1]))};
            return Values{internal::full(intern_type(kBool, {}, in[0].device()), 0)};
          },
      .no_derivative = kPiecewiseConstant,
      .samples = {.calls = {{{"[2,3]", "[2,3]"}}, {{"[2,3]", "[3]"}}}},
      .errors = {{{"int64[2]", "uint64[2]"}, "operand 'x2' is uint64 and operand 'x1' is int64"}},
  });
}

}  // namespace etude::ops
