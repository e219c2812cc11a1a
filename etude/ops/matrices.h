// SPDX-License-Identifier: Apache-2.0
// What the records of linear algebra share: checks of shapes, calls that their rules make, and
// operands for their samples.
#pragma once

#include <string>

#include "etude/core/op.h"
#include "etude/ops/calls.h"

namespace etude::ops {

inline constexpr DTypeSet kMatrixDTypes = DTypeSet(kFloat32) | kFloat64 | kComplex;
inline constexpr DTypeSet kRealMatrixDTypes = DTypeSet(kFloat32) | kFloat64;

// Ranges of samples of one operand, and of two, of which the first is positive definite.
inline std::vector<std::pair<double, double>> dominant() { return {{-2, 2}, {12, 12}}; }
inline std::vector<std::pair<double, double>> dominant_system() {
  return {{-2, 2}, {-2, 2}, {12, 12}};
}

// throw: kInvalidArgument that names the operand, its shape and what it needs.
void require_matrix(const Shape& shape, std::string_view operand);
void require_square(const Shape& shape, std::string_view operand);
// a [.., n, n] and b [.., n, k] with the same leading axes.
void require_system(const TypeCall& call);

// `shape` without its last `axes` axes, and with `sizes` in their place.
Shape leading(const Shape& shape, int axes);
Shape with_last(const Shape& shape, int axes, std::initializer_list<int64_t> sizes);

Tensor adjoint(const Tensor& x);  // transposed and conjugated
Tensor product(const Tensor& x, const Tensor& y);
// Lower half of x, of which the diagonal counts half; strictly lower and strictly upper halves.
Tensor half_lower(const Tensor& x);
Tensor off_diagonal(const Tensor& x);
// What reaches the lower half of x from the cotangent of the whole hermitian matrix that a call
// reads from it.
Tensor to_lower_half(const Tensor& ct);
// a matrix with v on its diagonal
Tensor diagonal_matrix(const Tensor& v);
Tensor diagonal_of(const Tensor& x);
Tensor as_row(const Tensor& v);         // [.., n] -> [.., 1, n]
Tensor as_column(const Tensor& v);      // [.., n] -> [.., n, 1]
Tensor identity_like(const Tensor& x);  // of x [.., n, n]
// x with a t = b for the triangle a.
Tensor triangular(const Tensor& a, const Tensor& b, bool lower, bool transpose, bool unit = false);
// The inverse, for the op `of`, which errors name.
Tensor inverse(const Tensor& x, const std::string& of);

}  // namespace etude::ops
