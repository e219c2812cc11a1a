// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/linalg/matrices.h"

#include <limits>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/ops.h"

namespace etude::ops {

void require_matrix(const Shape& shape, std::string_view operand) {
  ETUDE_REQUIRE(shape.rank() >= 2,
                "operand '{}' has shape {}, but a matrix needs two axes: [.., rows, columns]",
                operand, shape.to_string());
}

void require_square(const Shape& shape, std::string_view operand) {
  require_matrix(shape, operand);
  const int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
  ETUDE_REQUIRE(rows == columns,
                "operand '{}' has shape {}: {} rows and {} columns, but it must be square", operand,
                shape.to_string(), rows, columns);
}

void require_system(const TypeCall& call) {
  const Shape &a = call.shape(0), &b = call.shape(1);
  require_square(a, "a");
  require_matrix(b, "b");
  const int64_t n = a[a.rank() - 1], rows = b[b.rank() - 2];
  ETUDE_REQUIRE(rows == n && leading(a, 2) == leading(b, 2),
                "operand 'a' has shape {} and operand 'b' has shape {}: b needs {} rows, and the "
                "axes before the last two must be equal",
                a.to_string(), b.to_string(), n);
}

Shape leading(const Shape& shape, int axes) {
  return Shape(shape.sizes().first(static_cast<std::size_t>(shape.rank() - axes)));
}

Shape with_last(const Shape& shape, int axes, std::initializer_list<int64_t> sizes) {
  Shape out = leading(shape, axes);
  for (const int64_t size : sizes) out.push_back(size);
  return out;
}

Tensor adjoint(const Tensor& x) { return internal::conj(matrix_transpose(x)); }
Tensor product(const Tensor& x, const Tensor& y) { return matmul(x, y); }

Tensor half_lower(const Tensor& x) { return 0.5 * (tril(x) + tril(x, {.k = -1})); }
Tensor off_diagonal(const Tensor& x) { return tril(x, {.k = -1}) + triu(x, {.k = 1}); }
Tensor to_lower_half(const Tensor& ct) { return half_lower(ct + adjoint(ct)); }

Tensor as_row(const Tensor& v) { return expand_dims(v, -2); }
Tensor as_column(const Tensor& v) { return expand_dims(v, -1); }

Tensor diagonal_matrix(const Tensor& v) {
  const int64_t n = v.shape()[v.rank() - 1];
  const Tensor zeros =
      internal::full(intern_type(v.dtype(), with_last(v.shape(), 1, {n, n}), v.device()), 0);
  return run(op<"set_diagonal">(), {&zeros, &v});
}
Tensor diagonal_of(const Tensor& x) { return run(op<"diagonal">(), {&x}); }

Tensor identity_like(const Tensor& x) {
  const Shape& shape = x.shape();
  const std::string device = x.device().to_string();
  return run(op<"eye">(), OperandList(),
             {shape[shape.rank() - 1], none, int64_t{0}, leading(shape, 2).to_vector(), x.dtype(),
              x.device().is_home() ? AttrView(none) : AttrView(device)});
}

Tensor infinite_at_equal_values(const Tensor& moved, const Tensor& gaps, const Tensor& arrives) {
  const Tensor equal_values = any(gaps == 0.0, {.axis = {-2, -1}, .keepdims = true});
  const Tensor infinity =
      internal::full(intern_type(moved.dtype(), {}), std::numeric_limits<double>::infinity());
  return where(logical_and(equal_values, arrives), infinity, moved);
}

Tensor arrives(const Tensor& ct) { return any(ct != 0.0, {.axis = {-2, -1}, .keepdims = true}); }
Tensor without_zeros(const Tensor& gaps) { return where(gaps == 0.0, 1.0, gaps); }

Tensor triangular(const Tensor& a, const Tensor& b, bool lower, bool transpose, bool unit) {
  return run(op<"solve_triangles">(), {&a, &b}, {lower, transpose, unit});
}

Tensor inverse(const Tensor& x, const std::string& of) {
  const Tensor one = identity_like(x);
  return run(op<"solve_matrices">(), {&x, &one}, {false, of});
}

}  // namespace etude::ops
