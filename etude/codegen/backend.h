// SPDX-License-Identifier: Apache-2.0
// What compile.cc asks of LLVM: backend.cc, or in a build without it absent.cc. Programs that come
// here are checked. No header of LLVM is needed for this one.
#pragma once

#include <memory>
#include <string>

#include "etude/codegen/compile.h"

namespace etude::codegen::backend {

bool is_available();

std::shared_ptr<const Code> build(const scalar::Program& program, const CompileOptions& options);
std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized);
std::string assembly_text(const scalar::Program& program, const CompileOptions& options);

}  // namespace etude::codegen::backend
