// SPDX-License-Identifier: Apache-2.0
// Checks a program before code generation, and computes its cache key.
#pragma once

#include <string>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// throws: the errors that compile (compile.h) throws for an invalid program, or invalid options.
void check_program(const scalar::Program& program);
void check_options(const CompileOptions& options);

// Returns a cache key: two programs have equal keys exactly if their code is equal. The key does
// not depend on Program::sources or on unused parts of nodes. 0 and -0 are different constants, and
// so are two NaNs with different bits.
std::string key_of(const scalar::Program& program, const CompileOptions& options);

}  // namespace etude::codegen
