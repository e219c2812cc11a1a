// SPDX-License-Identifier: Apache-2.0
// Helpers of the records of linear algebra: checks of shapes, calls made by their rules, and sample
// operands.
#pragma once

#include <string>

#include "etude/core/op/op.h"
#include "etude/ops/calls.h"

namespace etude::ops {

inline constexpr DTypeSet kMatrixDTypes = DTypeSet(kFloat32) | kFloat64 | kComplex;
inline constexpr DTypeSet kRealMatrixDTypes = DTypeSet(kFloat32) | kFloat64;

// Ranges of sample operands: for one operand, and for two operands whose first is positive
// definite.
inline std::vector<std::pair<double, double>> dominant() { return {{-2, 2}, {12, 12}}; }
inline std::vector<std::pair<double, double>> dominant_system() {
  return {{-2, 2}, {-2, 2}, {12, 12}};
}

// throws: kInvalidArgument that names the operand, its shape and the requirement.
void require_matrix(const Shape& shape, std::string_view operand);
void require_square(const Shape& shape, std::string_view operand);
// throws: kInvalidArgument unless the operands are a [.., n, n] and b [.., n, k] with the same
// leading axes.
void require_system(const TypeCall& call);

// `shape` with its last `axes` axes replaced by `sizes`.
Shape leading(const Shape& shape, int axes);
Shape with_last(const Shape& shape, int axes, std::initializer_list<int64_t> sizes);

Tensor adjoint(const Tensor& x);  // transposed and conjugated
Tensor product(const Tensor& x, const Tensor& y);
// The lower half of x with half of its diagonal, the strictly lower half, and the strictly upper
// half, in this order.
Tensor half_lower(const Tensor& x);
Tensor off_diagonal(const Tensor& x);
// The cotangent of the lower half of x, from the cotangent of the whole hermitian matrix that a
// call reads from it.
Tensor to_lower_half(const Tensor& ct);
// a matrix with v on its diagonal
Tensor diagonal_matrix(const Tensor& v);
Tensor diagonal_of(const Tensor& x);
Tensor as_row(const Tensor& v);         // [.., n] -> [.., 1, n]
Tensor as_column(const Tensor& v);      // [.., n] -> [.., n, 1]
Tensor identity_like(const Tensor& x);  // of x [.., n, n]
// `moved`, or infinities for each matrix in which cotangents of vectors arrive and one of the gaps
// [.., n, n] between values is 0: the vectors of equal values may be any of their plane.
Tensor infinite_at_equal_values(const Tensor& moved, const Tensor& gaps, const Tensor& arrives);
// Whether any element of the cotangents of a result is not 0, for each matrix.
Tensor arrives(const Tensor& ct);
// Gaps to divide by: 1 in place of 0.
Tensor without_zeros(const Tensor& gaps);
// The x with a x = b for the triangular matrix a.
Tensor triangular(const Tensor& a, const Tensor& b, bool lower, bool transpose, bool unit = false);
// The inverse. Errors name the op `of`.
Tensor inverse(const Tensor& x, const std::string& of);

}  // namespace etude::ops
