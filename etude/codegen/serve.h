// SPDX-License-Identifier: Apache-2.0
// Makes machine code for the programs that kernels run (kernels/cpu/elementwise/fused_program.h).
#pragma once

namespace etude::codegen {

// From now on kernels get code. Called where the ops that need it are defined; threads: any.
void serve_kernels() noexcept;

}  // namespace etude::codegen
