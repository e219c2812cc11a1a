// SPDX-License-Identifier: Apache-2.0
// Comparisons, logic and selection. Results of comparisons are bool and carry no derivative.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

constexpr std::string_view kStep = "the result is piecewise constant";

}  // namespace

void define_comparison(Registry& r) {
  r.define({
      .name = "equal",
      .symbol = "==",
      .kind = Kind::kElementwise,
      .doc = "Whether x1 and x2 are equal, element by element with broadcasting; NaN equals nothing.",
      .operands = {"x1", "x2"},
      .result_dtype = ResultDType::kBool,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 == x2; }),
      .no_derivative = kStep,
  });
  r.define({
      .name = "greater",
      .symbol = ">",
      .kind = Kind::kElementwise,
      .doc = "Whether x1 > x2, element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kReal,
      .result_dtype = ResultDType::kBool,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 > x2; }),
      .no_derivative = kStep,
  });
  r.define({
      .name = "where",
      .kind = Kind::kElementwise,
      .doc = "x1 where the condition holds, else x2, with broadcasting.",
      .operands = {{"condition", kBool}, "x1", "x2"},
      .scalar = scalar_of<3>([](auto c, auto x1, auto x2) { return math::select(c, x1, x2); }),
      .partials = partials_of<3>([](auto c, auto, auto, auto, auto t) {
        return math::list(scalar::lift(t, 0.0), math::select(c, t, 0.0), math::select(c, 0.0, t));
      }),
  });
}

}  // namespace etude::ops
