// SPDX-License-Identifier: Apache-2.0
// Protects choices between the operands of a comparison, as in x < y ? x : y. LLVM would use a
// single x86 instruction for the choice. In Etude's float mode that instruction returns 0 for a
// denormal operand, but the choice must return the operand. This pass prevents the instruction.
#pragma once

#include <llvm/IR/Module.h>

namespace etude::codegen {

// Run this pass last, since other passes create such choices.
void keep_denormals(llvm::Module& module);

}  // namespace etude::codegen
