// SPDX-License-Identifier: Apache-2.0
// Makes machine code for the programs that kernels run (kernels/cpu/elementwise/fused_program.h).
#pragma once

namespace etude::codegen {

// From here on kernels get code. Called where the ops are defined that need it; threads: any.
void serve_kernels() noexcept;

}  // namespace etude::codegen
