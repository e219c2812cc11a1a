// SPDX-License-Identifier: Apache-2.0
// Operations on the bits of integers; on bool, only the operations that make sense there.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

OpDef bitwise(std::string_view name, std::string_view symbol, DTypeSet dtypes,
              std::vector<OperandDef> operands, std::string_view doc, const ScalarDef& scalar) {
  const std::vector<std::string_view> wrong(operands.size(), "float32[2]");
  return {
      .name = name,
      .symbol = symbol,
      .kind = Kind::kElementwise,
      .doc = doc,
      .operands = std::move(operands),
      .dtypes = dtypes,
      .scalar = scalar,
      .no_derivative = "bits are integers",
      .errors = {{wrong, "is float32, but must be one of"}},
  };
}

}  // namespace

void define_bitwise(Registry& r) {
  r.define(bitwise("bitwise_and", "&", kIntegersBool, {"x1", "x2"},
                   "The bits that are set in both x1 and x2.",
                   values_of<2>([](auto x1, auto x2) { return math::bitwise_and(x1, x2); })));
  r.define(bitwise("bitwise_or", "|", kIntegersBool, {"x1", "x2"},
                   "The bits that are set in x1 or in x2.",
                   values_of<2>([](auto x1, auto x2) { return math::bitwise_or(x1, x2); })));
  r.define(bitwise("bitwise_xor", "^", kIntegersBool, {"x1", "x2"},
                   "The bits that are set in exactly one of x1 and x2.",
                   values_of<2>([](auto x1, auto x2) { return math::bitwise_xor(x1, x2); })));
  OpDef invert = bitwise("bitwise_invert", "~", kIntegersBool, {"x"}, "x with every bit inverted.",
                         values_of<1>([](auto x) { return math::bitwise_invert(x); }));
  invert.rewrites = {{.name = "invert_of_invert",
                      .inner = "bitwise_invert",
                      .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                                "  %1 = bitwise_invert(x)\n"
                                "  %2 = bitwise_invert(%1)\n"
                                "  return %2"}};
  r.define(std::move(invert));
  OpDef left =
      bitwise("bitwise_left_shift", "<<", kIntegers, {"x1", "x2"},
              "The bits of x1 shifted left by x2 places. The result is 0 if x2 is negative or at "
              "least the number of bits.",
              values_of<2>([](auto x1, auto x2) { return math::bitwise_left_shift(x1, x2); }));
  left.samples.ranges = {{-8, 8}, {0, 6}};
  r.define(std::move(left));
  OpDef right =
      bitwise("bitwise_right_shift", ">>", kIntegers, {"x1", "x2"},
              "The bits of x1 shifted right by x2 places. The sign is kept. If x2 is negative or "
              "at least the number of bits, only the sign is left.",
              values_of<2>([](auto x1, auto x2) { return math::bitwise_right_shift(x1, x2); }));
  right.samples.ranges = {{-8, 8}, {0, 6}};
  r.define(std::move(right));
}

}  // namespace etude::ops
