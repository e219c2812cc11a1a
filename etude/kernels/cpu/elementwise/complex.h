// SPDX-License-Identifier: Apache-2.0
// Kernels of functions of complex numbers that give their parts. Used by op records.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operand 0 is complex; results have its dtype (conj) or the real one of that width.
void prepare_complex_conj(const PrepareCall& call);
void prepare_complex_real(const PrepareCall& call);
void prepare_complex_imag(const PrepareCall& call);
void prepare_complex_abs(const PrepareCall& call);
// A result of zeros, whatever the operands are.
void prepare_zeros(const PrepareCall& call);

}  // namespace etude::kernels::cpu
