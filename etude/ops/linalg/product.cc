// SPDX-License-Identifier: Apache-2.0
// Products of matrices and vectors.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/product/matmul.h"
#include "etude/ops.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

Types matmul_type(const TypeCall& call) {
  const Shape &x = call.shape(0), &y = call.shape(1);
  const bool tx = call.attrs.flag("transpose_x") && x.rank() > 1;
  const bool ty = call.attrs.flag("transpose_y") && y.rank() > 1;
  for (std::size_t i = 0; i < 2; ++i) {
    ETUDE_REQUIRE(call.rank(i) >= 1,
                  "operand '{}' is a scalar, but must have at least one axis. Use x * y",
                  call.op.operand(i).name);
  }
  const int64_t columns = x[x.rank() - (tx ? 2 : 1)];
  const int64_t rows = y[y.rank() - (ty || y.rank() == 1 ? 1 : 2)];
  ETUDE_REQUIRE(
      columns == rows,
      "operand 'x' has shape {} and operand 'y' has shape {}: inner sizes {} and {} must be equal. "
      "Pass transpose_x or transpose_y, or reshape one of them",
      x.to_string(), y.to_string(), columns, rows);
  const auto leading = [](const Shape& s) {
    return s.rank() < 3 ? Shape{} : Shape(s.sizes().first(static_cast<std::size_t>(s.rank() - 2)));
  };
  Shape out;
  try {
    out = broadcast(leading(x), leading(y));
  } catch (const Error&) {
    ETUDE_THROW(kInvalidArgument,
                "operand 'x' has shape {} and operand 'y' has shape {}: the axes before the last "
                "two must be equal "
                "or 1",
                x.to_string(), y.to_string());
  }
  if (x.rank() > 1) out.push_back(x[x.rank() - (tx ? 1 : 2)]);
  if (y.rank() > 1) out.push_back(y[y.rank() - (ty ? 2 : 1)]);
  return {call.make(call.dtype(0), out)};
}

Tensor with_shape(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : reshape(x, shape);
}

// Gradients of operands that have two axes or more.
Tensor matrix_gradient(const Tensor& x, const Tensor& y, int wrt, const Tensor& ct, bool tx,
                       bool ty) {
  if (wrt == 0) {
    const Tensor other = internal::conj(y);
    return tx ? matmul(other, ct, {.transpose_x = ty, .transpose_y = true})
              : matmul(ct, other, {.transpose_y = !ty});
  }
  const Tensor other = internal::conj(x);
  return ty ? matmul(ct, other, {.transpose_x = true, .transpose_y = tx})
            : matmul(other, ct, {.transpose_x = !tx});
}

// All leading axes and the rows as one axis.
Shape flat(const Shape& s) {
  const int64_t last = s[s.rank() - 1];
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < s.rank(); ++axis) rows *= s[axis];
  return {rows, last};
}

Tensor matmul_transpose(Operands in, int wrt, const Tensor& ct, const Attrs& attrs) {
  Shape xs = in[0].shape(), ys = in[1].shape(), cs = ct.shape();
  const bool x_is_row = xs.rank() == 1, y_is_column = ys.rank() == 1;
  const bool tx = attrs.flag("transpose_x") && !x_is_row,
             ty = attrs.flag("transpose_y") && !y_is_column;
  const Shape wanted = wrt == 0 ? xs : ys;
  if (y_is_column) cs.push_back(1), ys.push_back(1);
  if (x_is_row) {
    xs = {1, xs[0]};
    const int64_t last = cs[cs.rank() - 1];
    cs.set(cs.rank() - 1, 1);
    cs.push_back(last);
  }
  // One matrix y for many of x: the leading axes are rows, and nothing is left to be summed.
  const bool rows = ys.rank() == 2 && xs.rank() > 2 && !tx && wrt == 1;
  if (rows) xs = flat(xs), cs = flat(cs);
  // The operand itself may have only a type, no value, so it is not reshaped.
  const Tensor x = wrt == 1 ? with_shape(in[0], xs) : in[0],
               y = wrt == 0 ? with_shape(in[1], ys) : in[1];
  const Tensor g = matrix_gradient(x, y, wrt, with_shape(ct, cs), tx, ty);
  return with_shape(internal::sum_to(g, wrt == 0 ? xs : ys), wanted);
}

// [batch, leading.., rows, columns] from an operand of matmul; vectors get an axis of size 1 at
// `vector_axis` of their matrix, 0 or 1.
Tensor as_matrices(const BatchCall& call, std::size_t i, int rank, int vector_axis) {
  Shape own = call.shape(i);
  if (own.rank() == 1 && vector_axis == 1) own.push_back(1);
  const Shape sizes = batching::with_rank(own, rank);
  if (call.is_batched(i)) return batching::with_example_shape(call.in[i], sizes);
  return with_shape(call.in[i], sizes);
}

Values matmul_batch(const BatchCall& call) {
  const Tensor &x = call.in[0], &y = call.in[1];
  const int x_rank = call.rank(0), y_rank = call.rank(1);
  const bool tx = call.attrs.flag("transpose_x") && x_rank > 1,
             ty = call.attrs.flag("transpose_y") && y_rank > 1;
  // Vectors that meet one matrix are the rows of a matrix themselves.
  if (x_rank == 1 && !call.is_batched(1) && y_rank <= 2) return {matmul(x, y, {.transpose_y = ty})};
  if (y_rank == 1 && !call.is_batched(0) && x_rank == 2)
    return {matmul(y, x, {.transpose_y = !tx})};
  const int rank = std::max({x_rank, y_rank, 2});
  const Tensor product = matmul(as_matrices(call, 0, rank, 0), as_matrices(call, 1, rank, 1),
                                {.transpose_x = tx, .transpose_y = ty});
  Shape sizes = product.shape().sizes().subspan(1);
  std::vector<int64_t> example(sizes.begin(), sizes.end());
  if (y_rank == 1) example.pop_back();
  if (x_rank == 1) example.erase(example.end() - (y_rank == 1 ? 1 : 2));
  return {batching::with_example_shape(product, Shape(example))};
}

}  // namespace

void define_product(Registry& r) {
  r.define({
      .name = "matmul",
      .kind = Kind::kLinear,
      .doc = "Matrix product of x [.., m, k] and y [.., k, n]. The axes before the last two "
             "broadcast. An operand with one axis is a row on the left and a column on the right, "
             "and the result lacks its axis. transpose_x and transpose_y first swap the last two "
             "axes of an operand.",
      .operands = {"x", "y"},
      .attrs = {{"transpose_x", false}, {"transpose_y", false}},
      .dtypes = kNumeric,
      .type = matmul_type,
      .kernels = {.cpu = kernels::cpu::prepare_matmul},
      .transpose = matmul_transpose,
      .batch = matmul_batch,
      .samples = {.calls = {{{"[4,2]", "[2,5]"}},
                            {{"[3,1,4,2]", "[5,2,3]"}},
                            {{"[2,0]", "[0,3]"}},
                            {{"[3]", "[3]"}},
                            {{"[3]", "[2,3,4]"}},
                            {{"[2,4,3]", "[3]"}},
                            {{"[2,4,3]", "[3,5]"}},
                            {{"[3,2]", "[3,4]"}, {{"transpose_x", true}}},
                            {{"[2,3]", "[4,3]"}, {{"transpose_y", true}}},
                            {{"[2,3,2]", "[4,3]"}, {{"transpose_x", true}, {"transpose_y", true}}}},
                  .ulp = 8},
      .errors =
          {{{"float32[2,3]", "float32[4,2]"},
            "operand 'x' has shape [2,3] and operand 'y' has shape [4,2]: inner sizes 3 and 4"},
           {{"float32[]", "float32[2]"}, "operand 'x' is a scalar"},
           {{"float32[2,3,4]", "float32[3,4,5]"}, "the axes before the last two"},
           {{"float32[2,3]", "float32[3,2]"}, "inner sizes 2 and 3", {{"transpose_x", true}}}},
  });
}

}  // namespace etude::ops
