// SPDX-License-Identifier: Apache-2.0
// Protects choices between the operands of a comparison, as in x < y ? x : y. x86 has one
// instruction for it, which in Etude's float mode returns 0 for a denormal operand, where the
// choice returns the operand. This prevents that instruction.
#pragma once

#include <llvm/IR/Module.h>

namespace etude::codegen {

// To be run after all other passes: they create such choices.
void keep_denormals(llvm::Module& module);

}  // namespace etude::codegen
