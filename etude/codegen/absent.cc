// SPDX-License-Identifier: Apache-2.0
// In place of backend.cc and all that includes LLVM, where it is not there.
#include "etude/base/check.h"
#include "etude/codegen/backend.h"

namespace etude::codegen::backend {
namespace {

[[noreturn]] void refuse() {
  ETUDE_THROW(kUnimplemented,
              "this build of Etude generates no code. Configure it with -DETUDE_CODEGEN=ON, which "
              "needs LLVM 22.1");
}

}  // namespace

bool is_available() { return false; }
std::shared_ptr<const Code> build(const scalar::Program&, const CompileOptions&) { refuse(); }
std::string ir_text(const scalar::Program&, const CompileOptions&, bool) { refuse(); }
std::string assembly_text(const scalar::Program&, const CompileOptions&) { refuse(); }

}  // namespace etude::codegen::backend
