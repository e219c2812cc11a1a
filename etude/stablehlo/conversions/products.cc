// SPDX-License-Identifier: Apache-2.0
// Products of matrices, and systems of equations with triangles.
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

Shape leading_sizes(const Shape& shape) {
  Shape out;
  for (int axis = 0; axis < shape.rank() - 2; ++axis) out.push_back(shape[axis]);
  return out;
}
// x with these leading sizes.
Term with_leading(const Term& x, const Shape& leading) {
  if (leading_sizes(x.shape()) == leading) return x;
  Sizes sizes = leading.to_vector();
  sizes.push_back(x.shape()[x.rank() - 2]);
  sizes.push_back(x.shape()[x.rank() - 1]);
  return broadcast(x, Shape(sizes));
}

Terms matmul(Call& call) {
  Term x = call.in(0), y = call.in(1);
  const auto inner_x = [&] {
    return x.rank() - (call.attrs.flag("transpose_x") && x.rank() > 1 ? 2 : 1);
  };
  const auto inner_y = [&] {
    return y.rank() - (call.attrs.flag("transpose_y") || y.rank() == 1 ? 1 : 2);
  };
  // A y of two axes needs no batch axes, and x keeps its own.
  if (y.rank() > 2) {
    if (x.rank() == 1) x = reshape(x, Shape{1, x.shape()[0]});
    const Shape leading = etude::broadcast(leading_sizes(x.shape()), leading_sizes(y.shape()));
    x = with_leading(x, leading);
    y = with_leading(y, leading);
  }
  const Sizes batch = y.rank() > 2 ? all_axes(y.rank() - 2) : Sizes();
  const bool is_row = call.rank(0) == 1;
  const int64_t x_axis = is_row ? x.rank() - 1 : inner_x();
  const Term out = dot(
      x, y,
      {.x_batch = batch, .y_batch = batch, .x_contracted = {x_axis}, .y_contracted = {inner_y()}});
  return {reshape(out, call.result().shape())};
}

// XLA reads the imaginary parts of the diagonal, which are 0 in a Hermitian matrix. We ignore them.
Term with_real_diagonal(Call& call) {
  const Term x = call.in(0);
  if (!is_complex(x.dtype())) return x;
  const Shape matrix{x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]};
  const Term is_diagonal = compare("EQ", counted(call.writer, matrix, 0, kInt64),
                                   counted(call.writer, matrix, 1, kInt64));
  const DType part = real_dtype(x.dtype());
  const Term real = apply("real", {x}, intern_type(part, x.shape()));
  const Term zeros = filled(call.writer, 0, part, x.shape());
  return where(is_diagonal, apply("complex", {real, zeros}, x.type), x);
}

Terms cholesky(Call& call) {
  const Term x = with_real_diagonal(call);
  const Shape& shape = x.shape();
  const Term factor = call.writer.add(
      fmt::format("stablehlo.cholesky {}, lower = true : {}", x.name, type_text(x.type)), x.type);
  const Shape matrix{shape[shape.rank() - 2], shape[shape.rank() - 1]};
  const Term is_lower = compare("GE", counted(call.writer, matrix, 0, kInt64),
                                counted(call.writer, matrix, 1, kInt64));
  return {where(is_lower, factor, call.number(0))};
}

Terms solve_triangles(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  return {call.writer.add(
      fmt::format("\"stablehlo.triangular_solve\"({}) <{{left_side = true, lower = {}, transpose_a "
                  "= #stablehlo<transpose {}>, unit_diagonal = {}}}> : {} -> {}",
                  name_list({a, b}), call.attrs.flag("lower"),
                  call.attrs.flag("transpose") ? "TRANSPOSE" : "NO_TRANSPOSE",
                  call.attrs.flag("unit"), type_list({a, b}), type_text(b.type)),
      b.type)};
}
bool are_alike(const CallFacts& call) {
  return leading_sizes(call.shape(0)) == leading_sizes(call.shape(1));
}

}  // namespace

void add_product_conversions(Conversions& to) {
  to.insert(to.end(),
            {{.op = "matmul", .dtypes = kSummed, .write = matmul},
             {.op = "internal.cholesky_factor", .dtypes = kFullComplex, .write = cholesky},
             {.op = "internal.solve_triangles",
              .dtypes = kFullComplex,
              .write = solve_triangles,
              .fits = are_alike}});
}

}  // namespace etude::stablehlo::internal
