// SPDX-License-Identifier: Apache-2.0
// Comparisons, logic and selection. Results of comparisons are bool and carry no derivative.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

OpDef comparison(std::string_view name, std::string_view symbol, DTypeSet dtypes,
                 std::string_view doc, const ScalarDef& scalar) {
  OpDef def{
      .name = name,
      .symbol = symbol,
      .kind = Kind::kElementwise,
      .doc = doc,
      .operands = {"x1", "x2"},
      .dtypes = dtypes,
      .result_dtype = ResultDType::kBool,
      .scalar = scalar,
      .no_derivative = kPiecewiseConstant,
      .errors = {{{"int64[2]", "uint64[2]"}, "operand 'x2' is uint64 and operand 'x1' is int64"},
                 {{"float32[2,3]", "float32[4]"}, "sizes 3 and 4 on axis -1"}},
  };
  if (dtypes == kReal) {
    def.errors.push_back(
        {{"complex64[2]", "complex64[2]"}, "operand 'x1' is complex64, but must be one of"});
  }
  return def;
}

OpDef logical(std::string_view name, std::vector<OperandDef> operands, std::string_view doc,
              const ScalarDef& scalar) {
  const bool binary = operands.size() == 2;
  const std::vector<std::string_view> wrong(operands.size(), "int32[2]");
  return {
      .name = name,
      .kind = Kind::kElementwise,
      .doc = doc,
      .operands = std::move(operands),
      .dtypes = kBool,
      .result_dtype = ResultDType::kBool,
      .scalar = scalar,
      .no_derivative = kPiecewiseConstant,
      .errors = {{wrong, binary ? "operand 'x1' is int32, but must be one of bool"
                                : "operand 'x' is int32, but must be one of bool"}},
  };
}

void define_comparisons(Registry& r) {
  r.define(comparison(
      "equal", "==", kAnyDType,
      "Whether x1 and x2 are equal, element by element with broadcasting. NaN equals nothing.",
      values_of<2>([](auto x1, auto x2) { return x1 == x2; })));
  r.define(comparison("not_equal", "!=", kAnyDType,
                      "Whether x1 and x2 differ, element by element with broadcasting. NaN differs "
                      "from all numbers and from NaN.",
                      values_of<2>([](auto x1, auto x2) { return x1 != x2; })));
  r.define(comparison("less", "<", kReal, "Whether x1 < x2, element by element with broadcasting.",
                      values_of<2>([](auto x1, auto x2) { return x1 < x2; })));
  r.define(comparison("less_equal", "<=", kReal,
                      "Whether x1 <= x2, element by element with broadcasting.",
                      values_of<2>([](auto x1, auto x2) { return x1 <= x2; })));
  r.define(comparison("greater", ">", kReal,
                      "Whether x1 > x2, element by element with broadcasting.",
                      values_of<2>([](auto x1, auto x2) { return x1 > x2; })));
  r.define(comparison("greater_equal", ">=", kReal,
                      "Whether x1 >= x2, element by element with broadcasting.",
                      values_of<2>([](auto x1, auto x2) { return x1 >= x2; })));
}

void define_logic(Registry& r) {
  r.define(logical("logical_and", {"x1", "x2"}, "Whether x1 and x2 are both true.",
                   values_of<2>([](auto x1, auto x2) { return math::logical_and(x1, x2); })));
  r.define(logical("logical_or", {"x1", "x2"}, "Whether x1 or x2 is true, or both.",
                   values_of<2>([](auto x1, auto x2) { return math::logical_or(x1, x2); })));
  r.define(logical("logical_xor", {"x1", "x2"}, "Whether exactly one of x1 and x2 is true.",
                   values_of<2>([](auto x1, auto x2) { return math::logical_xor(x1, x2); })));
  OpDef negation = logical("logical_not", {"x"}, "Whether x is false.",
                           values_of<1>([](auto x) { return math::logical_not(x); }));
  negation.rewrites = {{.name = "not_of_not",
                        .inner = "logical_not",
                        .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                                  "  %1 = logical_not(x)\n"
                                  "  %2 = logical_not(%1)\n"
                                  "  return %2"}};
  r.define(std::move(negation));
}

}  // namespace

void define_comparison(Registry& r) {
  define_comparisons(r);
  define_logic(r);
  r.define({
      .name = "where",
      .kind = Kind::kElementwise,
      .doc = "x1 where the condition is true, else x2, with broadcasting.",
      .operands = {{"condition", kBool}, "x1", "x2"},
      .scalar = scalar_of<3>([](auto c, auto x1, auto x2) { return math::where(c, x1, x2); }),
      .rewrites = {{.name = "where_of_one_value",
                    .source = 1,
                    .when =
                        [](const RewriteCall& call) { return call.values[1] == call.values[2]; },
                    .dtypes = kIntegersBool | kFloat32 | kFloat64 | kComplex,
                    .sample = "graph f(c: bool[9,15], x: T[9,15]) -> (T[9,15])\n"
                              "  %2 = where(c, x, x)\n"
                              "  return %2"}},
      .errors = {{{"int32[2]", "float32[2]", "float32[2]"},
                  "operand 'condition' is int32, but must be one of bool"}},
  });
}

}  // namespace etude::ops
