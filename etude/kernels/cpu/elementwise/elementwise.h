// SPDX-License-Identifier: Apache-2.0
// Eager kernels of element-wise ops. They broadcast in tiles, and compute float32 by the SIMD
// kernels of the record and all other dtypes by the tile interpreter. Used by op records.
#pragma once

#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace kernels::cpu {

// The maximum number of operands of one scalar program: kernels hold their pointers in arrays of
// this size.
inline constexpr std::size_t kMaxOperands = 6;

// The kernel of a call whose record has a scalar program; numeric attributes are its parameters.
void prepare_elementwise(const PrepareCall& call);
// The kernel of fused_elementwise: program and parameters are attributes. The type rule has checked
// operands, dtypes and parameters against the program.
void prepare_fused(const PrepareCall& call, const ScalarDef& def);

// Computes out[i] = program(in[0][i], ...). All arrays are dense and have `dtype`, or bool if the
// program marks them as bools. Half types round every node if `round_nodes`, else only the result.
// Runs on the calling thread. Returns false after report_fault (integer division by zero, negative
// integer power).
bool run_program(const scalar::Program& program, DType dtype, bool round_nodes, void* out,
                 const void* const* in, const double* params, int64_t n);

}  // namespace kernels::cpu
}  // namespace etude
