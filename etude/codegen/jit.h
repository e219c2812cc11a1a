// SPDX-License-Identifier: Apache-2.0
// Links object files into this process.
#pragma once

#include <memory>
#include <string>

#include <llvm/Support/MemoryBuffer.h>

#include "etude/codegen/backend.h"

namespace etude::codegen {

// What generated code may call. Before the first link; `host` lives on.
void set_host(const backend::Host& host);

// The name of the one function that an object file defines.
inline constexpr char kKernelName[] = "etude_kernel";

// Its code, which is freed with the result.
//
// throws:  kResourceExhausted when there is no memory for code; kInternal for all else.
// threads: thread-safe.
std::shared_ptr<const Code> link(std::unique_ptr<llvm::MemoryBuffer> object);

}  // namespace etude::codegen
