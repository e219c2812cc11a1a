// SPDX-License-Identifier: Apache-2.0
// Loads code from object files. It accepts relocatable ELF files for x86-64 as Etude's compiler
// writes them, and no others. The bytes come from another process or from the disk, so each number
// in them is checked; the code itself is not checked.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// Loads the object file and returns its function etude_kernel, which may call fmaf and the
// functions of large_angles (math_table.h). The code is freed with the result. Memory is first
// writable, then readable and executable, never both. `name` is for tools that inspect the process
// (code_names.h).
//
// throws:  kDataLoss, with the reason, for bytes that are not such a file, or that refer to other
//          symbols; kResourceExhausted when there is no memory for code.
// threads: thread-safe.
std::shared_ptr<const Code> load_object(std::string_view object, std::string_view name = "");

// The function of this name that object files may call; null: none. threads: thread-safe.
const void* imported_function(std::string_view name);

}  // namespace etude::codegen
