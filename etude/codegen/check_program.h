// SPDX-License-Identifier: Apache-2.0
// Requirements on a program for code generation, and its key in a cache.
#pragma once

#include <string>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// throws: the errors of compile (compile.h) for a program or for options.
void check_program(const scalar::Program& program);
void check_options(const CompileOptions& options);

// Returns a key that is equal for two programs exactly if their code is equal. Unused parts of
// nodes and the positions of the operands do not enter the key. 0 and -0 are different constants,
// and so are two NaNs of different bits.
std::string key_of(const scalar::Program& program, const CompileOptions& options);

}  // namespace etude::codegen
