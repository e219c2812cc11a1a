// SPDX-License-Identifier: Apache-2.0
// Diagonals, bands, powers, norms and products of vectors.
#include "etude/base/check.h"
#include "etude/base/internal/checked_int.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/linalg/linalg.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"
#include "etude/ops/linalg/matrices.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using internal::CheckedInt;

// --- diagonals ---

int64_t diagonal_length(const Shape& x, int64_t offset) {
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  const int64_t length =
      offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  return std::max<int64_t>(0, length);
}

Types diagonal_type(const TypeCall& call) {
  const Shape& x = call.shape(0);
  require_matrix(x, "x");
  return {call.make(call.dtype(0),
                    with_last(x, 2, {diagonal_length(x, call.attrs.integer("offset"))}))};
}

Types set_diagonal_type(const TypeCall& call) {
  const Types wanted = diagonal_type(call);
  ETUDE_REQUIRE(call.shape(1) == wanted[0]->shape(),
                "operand 'x' has shape {} and operand 'v' has shape {}, but its diagonal {} has {}",
                call.shape(0).to_string(), call.shape(1).to_string(), call.attrs.integer("offset"),
                wanted[0]->shape().to_string());
  return {call.types[0]};
}

Values set_diagonal_vjp(const VjpCall& call) {
  Values out(2);
  const AttrValue& offset = call.attrs.value("offset");
  if (call.wants(0)) {
    const Tensor zero = internal::full(call.in[1].type(), 0);
    out[0] = run(op<"set_diagonal">(), {&call.ct(), &zero}, {offset});
  }
  if (call.wants(1)) out[1] = run(op<"diagonal">(), {&call.ct()}, {offset});
  return out;
}

Values lower_diag(Operands in, const Attrs& attrs) {
  const Tensor& v = in[0];
  ETUDE_REQUIRE(v.rank() >= 1, "operand 'v' is a scalar, but must have at least one axis");
  const int64_t offset = attrs.integer("offset");
  const CheckedInt distance = offset < 0 ? -CheckedInt(offset) : CheckedInt(offset);
  const int64_t n = (distance + v.shape()[v.rank() - 1]).value();
  const Tensor zeros =
      internal::full(intern_type(v.dtype(), with_last(v.shape(), 1, {n, n}), v.device()), 0);
  return run_all(op<"set_diagonal">(), {&zeros, &v}, {offset});
}

Values lower_band_part(Operands in, const Attrs& attrs) {
  require_matrix(in[0].shape(), "x");
  const int64_t lower = attrs.integer("lower"), upper = attrs.integer("upper");
  Tensor y = in[0];
  if (upper >= 0) y = tril(y, {.k = upper});
  if (lower >= 0) y = triu(y, {.k = -lower});
  return {y};
}

Values lower_trace(Operands in, const Attrs& attrs) {
  const Tensor d = run(op<"diagonal">(), {&in[0]}, {attrs.value("offset")});
  return {sum(d, {.axis = -1})};
}

void define_diagonals(Registry& r) {
  const std::vector<AttrDef> attrs = {{"offset", 0}};
  const std::vector<ErrorCase> errors = {{{"float32[3]"}, "a matrix needs two axes"}};
  r.define({
      .name = "diagonal",
      .space = kLinalgSpace,
      .kind = Kind::kLinear,
      .doc = "Diagonal `offset` of each matrix of x [.., m, n]. A positive offset is above the "
             "main diagonal.",
      .operands = {"x"},
      .attrs = attrs,
      .dtypes = kAnyDType,
      .type = diagonal_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_diagonal(call, call.attrs.integer("offset"));
                      }},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            const Tensor zeros = internal::full(in[0].type(), 0);
            return run(op<"set_diagonal">(), {&zeros, &ct}, {attrs.value("offset")});
          },
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}},
                            {{"[2,70]"}, {{"offset", int64_t{1}}}},
                            {{"[70,2]"}, {{"offset", int64_t{-1}}}},
                            {{"[2,2,2]"}, {{"offset", int64_t{200}}}}}},
      .errors = errors,
  });
  r.define({
      .name = "set_diagonal",
      .space = kLinalgSpace,
      .doc = "x with v [.., length of the diagonal] on diagonal `offset` of each matrix.",
      .operands = {"x", "v"},
      .attrs = attrs,
      .dtypes = kAnyDType,
      .type = set_diagonal_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_set_diagonal(call, call.attrs.integer("offset"));
                      }},
      .vjp = set_diagonal_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]", "[3]"}},
                            {{"[2,3,4]", "[2,3]"}, {{"offset", int64_t{1}}}},
                            {{"[4,2]", "[2]"}, {{"offset", int64_t{-1}}}}}},
      .errors = {{{"float32[3]", "float32[3]"}, "a matrix needs two axes"},
                 {{"float32[3,3]", "float32[2]"}, "but its diagonal 0 has [3]"}},
  });
  r.define({
      .name = "diag",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "Square matrices with v [.., n] on diagonal `offset` and zeros elsewhere.",
      .operands = {"v"},
      .attrs = attrs,
      .dtypes = kAnyDType,
      .lower = lower_diag,
      .samples = {.calls = {{{"[3]"}},
                            {{"[2,3]"}, {{"offset", int64_t{-1}}}},
                            {{"[0]"}, {{"offset", int64_t{2}}}}}},
      .errors = {{{"float32[]"}, "operand 'v' is a scalar"}},
  });
  r.define({
      .name = "band_part",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "x with zeros outside a band. The band has `lower` diagonals below the main diagonal "
             "and `upper` diagonals above. A negative number keeps all diagonals on its side.",
      .operands = {"x"},
      .attrs = {{"lower", AttrKind::kInt}, {"upper", AttrKind::kInt}},
      .dtypes = kAnyDType,
      .lower = lower_band_part,
      .samples = {.calls = {{{"[3,4]"}, {{"lower", int64_t{1}}, {"upper", int64_t{0}}}},
                            {{"[2,4,3]"}, {{"lower", int64_t{-1}}, {"upper", int64_t{1}}}},
                            {{"[2,2]"}, {{"lower", int64_t{-1}}, {"upper", int64_t{-1}}}}}},
      .errors = {{{"float32[3]"},
                  "a matrix needs two axes",
                  {{"lower", int64_t{0}}, {"upper", int64_t{0}}}}},
  });
  r.define({
      .name = "trace",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The sum of diagonal `offset` of each matrix of x.",
      .operands = {"x"},
      .attrs = attrs,
      .dtypes = kNumeric,
      .lower = lower_trace,
      .samples = {.calls = {{{"[2,3,3]"}}, {{"[3,70]"}, {{"offset", int64_t{1}}}}}, .ulp = 8},
      .errors = errors,
  });
}

// --- powers ---

Values lower_power(Operands in, const Attrs& attrs) {
  require_square(in[0].shape(), "x");
  int64_t n = attrs.integer("n");
  if (n == 0) return {identity_like(in[0])};
  Tensor base = n < 0 ? inverse(in[0], "matrix_power") : in[0], out;
  for (uint64_t left = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n); left > 0;
       left >>= 1) {
    if ((left & 1) != 0) out = out.has_value() ? matmul(out, base) : base;
    if (left > 1) base = matmul(base, base);
  }
  return {out};
}

// --- norms ---

// Reduces the last two axes of x: columns or rows first.
Tensor largest_sum(const Tensor& x, bool columns, bool least) {
  const Tensor sums = sum(abs(x), {.axis = columns ? -2 : -1});
  return least ? min(sums, {.axis = -1}) : max(sums, {.axis = -1});
}

Values lower_matrix_norm(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_matrix(x.shape(), "x");
  const std::string& ord = attrs.text("ord");
  const auto singular = [&] { return run(op<"svdvals">(), {&x}); };
  Tensor y;
  if (ord == "fro")
    y = norm(x, {.ord = 2, .axis = {-2, -1}});
  else if (ord == "nuc")
    y = sum(singular(), {.axis = -1});
  else if (ord == "2" || ord == "-2")
    y = ord == "2" ? max(singular(), {.axis = -1}) : min(singular(), {.axis = -1});
  else if (ord == "1" || ord == "-1")
    y = largest_sum(x, true, ord == "-1");
  else if (ord == "inf" || ord == "-inf")
    y = largest_sum(x, false, ord == "-inf");
  ETUDE_REQUIRE(y.has_value(),
                "ord is \"{}\", but must be one of fro, nuc, 1, -1, 2, -2, inf, -inf", ord);
  return {attrs.flag("keepdims") ? expand_dims(y, {-2, -1}) : y};
}

Values lower_vector_norm(Operands in, const Attrs& attrs) {
  return run_all(op<"norm">(), {&in[0]},
                 {attrs.value("ord"), attrs.value("axis"), attrs.value("keepdims")});
}

// --- products ---

Values lower_cross(Operands in, const Attrs& attrs) {
  const Shape shape = broadcast(in[0].shape(), in[1].shape());
  const int64_t axis = normalize_axis(attrs.integer("axis"), shape.rank());
  ETUDE_REQUIRE(shape[static_cast<int>(axis)] == 3,
                "operand 'x' has shape {} and operand 'y' has shape {}: axis {} must have size 3, "
                "not {}",
                in[0].shape().to_string(), in[1].shape().to_string(), axis,
                shape[static_cast<int>(axis)]);
  const std::vector<Tensor> x = unstack(broadcasted(in[0], shape), {.axis = axis});
  const std::vector<Tensor> y = unstack(broadcasted(in[1], shape), {.axis = axis});
  return {stack({x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]},
                {.axis = axis})};
}

Sample norm_sample(std::string_view shape, std::string ord) {
  return {{shape}, {{"ord", std::move(ord)}}};
}

void define_norms(Registry& r) {
  r.define({
      .name = "matrix_power",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The product of n factors x for each square matrix. For negative n, the product of -n "
             "factors of the inverse.",
      .operands = {"x"},
      .attrs = {{"n", AttrKind::kInt}},
      .dtypes = kMatrixDTypes,
      .lower = lower_power,
      .samples = {.calls = {{{"[3,3]"}, {{"n", int64_t{3}}}, dominant()},
                            {{"[2,2,2]"}, {{"n", int64_t{-2}}}, dominant()},
                            {{"[2,2]"}, {{"n", int64_t{0}}}, dominant()},
                            {{"[2,2]"}, {{"n", int64_t{1}}}, dominant()}},
                  .ulp = 64},
      .errors = {{{"float32[2,3]"}, "must be square", {{"n", int64_t{2}}}}},
  });
  r.define({
      .name = "matrix_norm",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "A norm of each matrix of x. \"fro\" is the Frobenius norm. \"nuc\" is the sum of the "
             "singular values; \"2\" and \"-2\" are the largest and the least of them. \"1\" and "
             "\"-1\" are the largest and the least sum of absolute values of a column; \"inf\" and "
             "\"-inf\" of a row.",
      .operands = {"x"},
      .attrs = {{"ord", "fro"}, {"keepdims", false}},
      .dtypes = kMatrixDTypes,
      .lower = lower_matrix_norm,
      .samples = {.calls = {{{"[3,4]"}},
                            norm_sample("[2,3,3]", "nuc"),
                            norm_sample("[2,70]", "2"),
                            norm_sample("[70,2]", "-2"),
                            norm_sample("[2,3,3]", "1"),
                            norm_sample("[3,3]", "-inf"),
                            {{"[2,3]"}, {{"ord", std::string("inf")}, {"keepdims", true}}}},
                  .ulp = 64},
      .errors = {{{"float32[3]"}, "a matrix needs two axes"},
                 {{"float32[2,2]"},
                  "ord is \"max\", but must be one of fro, nuc",
                  {{"ord", std::string("max")}}}},
  });
  r.define({
      .name = "vector_norm",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "A norm of x over `axis`; by default x counts as flat. The norm is (sum "
             "|x|^ord)^(1/ord). For ord 0 it is the number of nonzero elements, for infinite ord "
             "the largest or the least magnitude.",
      .operands = {"x"},
      .attrs = {{"ord", 2.0}, {"axis", AttrKind::kInts, none}, {"keepdims", false}},
      .dtypes = kFloatingComplex,
      .lower = lower_vector_norm,
      .samples = {.calls = {{{"[2,3]"}},
                            {{"[2,3]"}, {{"ord", 3.0}, {"axis", std::vector<int64_t>{-1}}}},
                            {{"[2,3]"}, {{"ord", 1.0}, {"keepdims", true}}}},
                  .ulp = 16},
      .errors = {{{"float32[2]"},
                  "axis 1 is outside [-1, 1)",
                  {{"axis", std::vector<int64_t>{1}}},
                  ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "cross",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The cross product of vectors of three elements along `axis`; other axes broadcast.",
      .operands = {"x", "y"},
      .attrs = {{"axis", -1}},
      .dtypes = kNumeric,
      .lower = lower_cross,
      .samples = {.calls = {{{"[3]", "[3]"}},
                            {{"[2,3]", "[3]"}},
                            {{"[3,2]", "[3,1]"}, {{"axis", int64_t{0}}}}},
                  .ulp = 8},
      .errors = {{{"float32[2]", "float32[2]"}, "axis 0 must have size 3, not 2"},
                 {{"float32[3]", "float32[2]"}, "broadcast"}},
  });
}

}  // namespace

void define_matrix_functions(Registry& r) {
  define_diagonals(r);
  define_norms(r);
}

}  // namespace etude::ops
