// SPDX-License-Identifier: Apache-2.0
// Links object files into this process.
#pragma once

#include <memory>
#include <string>

#include <llvm/Support/MemoryBuffer.h>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// The code of the function `name`, which the object file defines. The code is freed with the
// result.
//
// throws:  kResourceExhausted when there is no memory for code; kInternal for all else.
// threads: thread-safe.
std::shared_ptr<const Code> link(std::unique_ptr<llvm::MemoryBuffer> object,
                                 const std::string& name);

}  // namespace etude::codegen
