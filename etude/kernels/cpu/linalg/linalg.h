// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices and solutions of linear systems, by LAPACK (lapack/lapack.h), for each
// matrix along leading axes. Used by ops/linalg/linalg.cc and related files. dtypes: float32,
// float64, complex64 and complex128.
//
// All matrices of a call are row-major; operands have the same leading axes. A matrix for which the
// computation fails is a fault that states its index.
#pragma once

#include <string_view>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// x [.., n, n] -> lower triangles; the upper half of x is not read.
void prepare_cholesky(const PrepareCall& call);
// a [.., n, n], b [.., n, k] -> x with a x = b; with `transpose`, a is transposed. Errors name the
// op `of`: "solve", "inv", "matrix_power", "gradient of slogdet" or "gradient of eig".
void prepare_solve(const PrepareCall& call, bool transpose, std::string_view of);
struct Triangle {
  bool lower = true, transpose = false, unit = false;
};
void prepare_triangular_solve(const PrepareCall& call, const Triangle& triangle);

// x [.., n, n] -> the determinant, or its sign and logarithm, or the derivative of the determinant
// by each element.
void prepare_determinant(const PrepareCall& call);
void prepare_log_determinant(const PrepareCall& call);
void prepare_cofactor(const PrepareCall& call);
// x and directions [.., n, n] -> the derivative of prepare_cofactor's result along all directions.
void prepare_cofactor_along(const PrepareCall& call);

// x [.., m, n] with m >= n -> q [.., m, n], r [.., n, n]. With `complete`, x may have any sizes ->
// q [.., m, m], r [.., m, n].
void prepare_qr(const PrepareCall& call, bool complete);
// x [.., n, n] -> ascending values, and vectors in columns; the upper half of x is not read.
void prepare_eigh(const PrepareCall& call, bool vectors);
// x [.., n, n] -> complex values, and vectors of length 1 in columns, in the order of LAPACK.
void prepare_eig(const PrepareCall& call);
// x [.., m, n] -> u, s, vh, with min(m, n) singular vectors (kThin) or with m and n vectors
// (kFull); or s alone (kValues).
enum class SvdResults { kThin, kFull, kValues };
void prepare_svd(const PrepareCall& call, SvdResults results);
// x [.., m, n] -> [.., n, m]. Singular values up to rtol times the largest singular value count as
// 0; a negative rtol means max(m, n) times the epsilon of the dtype.
void prepare_pinv(const PrepareCall& call, double rtol);
void prepare_rank(const PrepareCall& call, double rtol);

// x [.., m, n], v [.., l] -> x with v on diagonal `offset`.
void prepare_set_diagonal(const PrepareCall& call, int64_t offset);
void prepare_diagonal(const PrepareCall& call, int64_t offset);

}  // namespace etude::kernels::cpu
