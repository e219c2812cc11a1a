// SPDX-License-Identifier: Apache-2.0
// Code from an object file: a relocatable file of ELF for x86-64, as our own compiler writes it,
// and nothing beyond that. Its bytes come from another process or from the disk, so each number in
// them is checked; what the code does is not.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// Its function etude_kernel, which may call fmaf and the functions of large_angles (math_table.h):
// freed with the result. Memory is written first, and then read and run, never both. `name` is for
// tools that look at the process (code_names.h).
//
// throws:  kDataLoss, saying what is wrong, for bytes that are no such file, or that call for
//          anything else; kResourceExhausted when there is no memory for code.
// threads: thread-safe.
std::shared_ptr<const Code> load_object(std::string_view object, std::string_view name = "");

// By the name in object files, a function that they may call; null: none. thread-safe.
const void* imported_function(std::string_view name);

}  // namespace etude::codegen
