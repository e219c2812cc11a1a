// SPDX-License-Identifier: Apache-2.0
// Kernels of functions that return parts of complex numbers. Used by op records.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operand 0 is complex. Results have its dtype (conj) or the dtype of its real parts.
void prepare_complex_conj(const PrepareCall& call);
void prepare_complex_real(const PrepareCall& call);
void prepare_complex_imag(const PrepareCall& call);
void prepare_complex_abs(const PrepareCall& call);
// A result of zeros, for any operands.
void prepare_zeros(const PrepareCall& call);

}  // namespace etude::kernels::cpu
