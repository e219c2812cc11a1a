// SPDX-License-Identifier: Apache-2.0
// A choice between the operands of a comparison, as in x < y ? x : y, becomes one instruction of
// x86 that gives 0 for a denormal operand in Etude's float mode, where the choice gives the
// operand. This keeps the choice.
#pragma once

#include <llvm/IR/Module.h>

namespace etude::codegen {

// Runs behind all other passes: they make such choices of others.
void keep_denormals(llvm::Module& module);

}  // namespace etude::codegen
