// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of general matrices. The rule is from Boeddeker et al., "On the
// computation of complex-valued gradients with application to statistically optimum beamforming",
// 2017, for eigenvectors of length 1.
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/linalg/linalg.h"
#include "etude/ops.h"
#include "etude/ops/families.h"
#include "etude/ops/linalg/matrices.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

Types eig_type(const TypeCall& call) {
  const Shape& x = call.shape(0);
  require_square(x, "x");
  const bool is_wide = real_dtype(call.dtype(0)) == kFloat64;
  const DType dtype = is_wide ? kComplex128 : kComplex64;
  return {call.make(dtype, leading(x, 1)), call.make(dtype, x)};
}

// x moves by v^-H (diag(gw) + (m - v^H v diag(re(m))) / conj(w_j - w_i)) v^H, with m = v^H gv. The
// second term of the numerator keeps the length of the vectors.
Values eig_vjp(const VjpCall& call) {
  const Tensor &w = call.out[0], &v = call.out[1];
  const Tensor vh = adjoint(v);
  Tensor inner, gaps;
  if (call.cotangents.has(1)) {
    gaps = as_row(w) - as_column(w);
    gaps = gaps + identity_like(gaps);
    const Tensor turn = product(vh, call.cotangents[1]);
    const Tensor along = internal::cast(real(diagonal_of(turn)), v.dtype());
    inner =
        off_diagonal(turn - product(vh, v) * as_row(along)) / internal::conj(without_zeros(gaps));
  }
  if (call.cotangents.has(0)) add_to(inner, diagonal_matrix(call.cotangents[0]));
  const Tensor right = product(inner, vh);
  Tensor moved =
      run(op<"solve_matrices">(), {&vh, &right}, {false, std::string("gradient of eig")});
  if (!is_complex(call.in[0].dtype())) moved = real(moved);
  if (gaps.has_value()) {
    moved = infinite_at_equal_values(moved, gaps, arrives(call.cotangents[1]));
  }
  return {moved};
}

std::vector<ErrorCase> eig_errors() {
  return {{{"float32[3]"}, "a matrix needs two axes: [.., rows, columns]"},
          {{"bfloat16[2,2]"}, "operand 'x' is bfloat16, but must be one of"},
          {{"float32[2,3]"}, "2 rows and 3 columns, but it must be square"}};
}

}  // namespace

void define_eig(Registry& r) {
  r.define({
      .name = "eig",
      .space = kLinalgSpace,
      .doc = "The eigenvalues of each matrix of x [.., n, n], complex and in no certain order, and "
             "its eigenvectors of length 1 as columns. Gradients are those of functions that do "
             "not depend on the phases of vectors. Gradients by vectors are infinite for a matrix "
             "with equal eigenvalues.",
      .operands = {"x"},
      .results = {"values", "vectors"},
      .dtypes = kMatrixDTypes,
      .type = eig_type,
      .kernels = {.cpu = kernels::cpu::prepare_eig},
      .vjp = eig_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,4]"}}, {{"[0,2,2]"}}, {{"[0,0]"}}},
                  .ulp = 256,
                  .no_gradient_check =
                      "complex vectors have phases that a decomposition chooses, and the rule is "
                      "that of functions that do not depend on them"},
      .errors = eig_errors(),
  });
  r.define({
      .name = "eigvals",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The eigenvalues of each matrix of x [.., n, n], complex and in no certain order: "
             "those of eig, in its order.",
      .operands = {"x"},
      .results = {"values"},
      .dtypes = kMatrixDTypes,
      .lower =
          [](Operands in, const Attrs&) {
            require_square(in[0].shape(), "x");
            return Values{run_all(op<"eig">(), {&in[0]})[0]};
          },
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,4]"}}, {{"[0,0]"}}}, .ulp = 256},
      .errors = eig_errors(),
  });
}

}  // namespace etude::ops
