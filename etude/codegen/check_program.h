// SPDX-License-Identifier: Apache-2.0
// What a program must be for code to be made of it, and what it is known by in a cache.
#pragma once

#include <string>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// throws: what compile (compile.h) throws for a program or for options.
void check_program(const scalar::Program& program);
void check_options(const CompileOptions& options);

// Bytes that are the same for the same code and for nothing else: what a node does not use does not
// count, nor do the places that a program has its operands from; 0 and -0 are two constants, and so
// are two NaNs of different bits.
std::string key_of(const scalar::Program& program, const CompileOptions& options);

}  // namespace etude::codegen
