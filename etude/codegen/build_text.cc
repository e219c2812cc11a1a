// SPDX-License-Identifier: Apache-2.0
// Part of both libraries, so that each tells of its own headers.
#include <fmt/format.h>

#include "etude/codegen/backend.h"
#include "etude/version.h"

namespace etude::codegen::backend {

std::string build_text() {
  return fmt::format("{} {} {} {} {} {}", ETUDE_VERSION, __VERSION__, sizeof(scalar::Program),
                     std::size(scalar::kFnInfo), sizeof(CompileOptions), sizeof(Table));
}

}  // namespace etude::codegen::backend
