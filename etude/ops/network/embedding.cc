// SPDX-License-Identifier: Apache-2.0
// Rows of tables, and positions in a sequence.
#include "etude/base/check.h"
#include "etude/core/internal/call.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

Values lower_rotary(Operands in, const Attrs& attrs) {
  const Tensor &x = in[0], &positions = in[1];
  ETUDE_REQUIRE(x.rank() >= 2 && x.shape()[x.rank() - 1] % 2 == 0,
                "operand 'x' has shape {}, but must be [.., time, size] with an even size",
                x.shape().to_string());
  const int64_t time = x.shape()[x.rank() - 2], half = x.shape()[x.rank() - 1] / 2;
  ETUDE_REQUIRE(positions.shape() == Shape{time},
                "operand 'positions' has shape {}, but x of shape {} needs [{}]",
                positions.shape().to_string(), x.shape().to_string(), time);
  const double base = attrs.real("base");
  ETUDE_REQUIRE(base > 0, "base is {}, but must be above 0", base);
  const auto number = [](double x) { return internal::full(intern_type(kFloat64, {}), x); };
  const Tensor rates =
      pow(number(base), linspace(number(0), number(-1), half, {.endpoint = false}));
  const Tensor angles = expand_dims(astype(positions, kFloat64), {1}) * rates;
  const Tensor c = astype(cos(angles), x.dtype()), s = astype(sin(angles), x.dtype());
  const std::vector<Tensor> parts = split(x, 2, {.axis = -1});
  return {concat({parts[0] * c - parts[1] * s, parts[1] * c + parts[0] * s}, {.axis = -1})};
}

Values lower_lookup(Operands in, const Attrs&) {
  const Tensor &table = in[0], &ids = in[1];
  ETUDE_REQUIRE(table.rank() == 2, "operand 'table' has shape {}, but must be [rows, size]",
                table.shape().to_string());
  return {take(table, ids)};
}

}  // namespace

void define_embedding(Registry& r) {
  r.define({
      .name = "rotary_embedding",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x [.., time, size] with the pairs (i, size / 2 + i) of its last axis rotated by the "
             "angle position * base^(-2 i / size). The product of two such rows depends only on "
             "the difference of their positions. positions: [time].",
      .operands = {"x", {"positions", kReal}},
      .attrs = {{"base", 10000.0}},
      .dtypes = kFloating,
      .lower = lower_rotary,
      .samples = {.calls = {{{"[2,3,4]", "int32[3]"}}, {{"[5,6]", "int64[5]"}, {{"base", 10.0}}}},
                  .ulp = 16},
      .errors = {{{"float32[3,3]", "int32[3]"}, "with an even size"},
                 {{"float32[3,4]", "int32[2]"}, "needs [3]"},
                 {{"float32[3,4]", "int32[3]"}, "base is 0", {{"base", 0.0}}}},
  });
  r.define({
      .name = "embedding_lookup",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "The rows of table [rows, size] at the indices `ids`: [ids.., size]. The gradient of "
             "the table is sparse: it has only the rows that were read.",
      .operands = {"table", {"ids", kIntegers}},
      .dtypes = kAnyDType,
      .lower = lower_lookup,
      .samples = {.calls = {{{"[5,3]", "int32[2,4]"}, {}, {{-2, 2}, {0, 4}}},
                            {{"[4,2]", "int64[3]"}, {}, {{-2, 2}, {0, 3}}}}},
      .errors = {{{"float32[3]", "int32[2]"}, "must be [rows, size]"},
                 {{"float32[3,2]", "float32[2]"}, "operand 'ids' is float32"}},
  });
}

}  // namespace etude::ops
