// SPDX-License-Identifier: Apache-2.0
// Names of the functions and constants of this process, from the symbol tables of its program and
// its shared libraries: also of those that are local to a source, which dladdr() does not know.
#pragma once

#include <cstdint>
#include <string>

namespace etude::aot {

struct ProgramSymbol {
  std::string name;  // as the linker knows it; "": none is known
  // Of a local one, the name of its source file: "conv.cc"; of another library, its name.
  std::string source;
  uintptr_t begin = 0;
  uint64_t bytes = 0;
  bool is_function = false;
};

// What lies at this address; in another library than this code, what begins there and is shown.
//
// throws: kFailedPrecondition, saying what to do, if the file in which it lies was stripped.
// threads: thread-safe. cost: the first time, that of reading the table of a file.
ProgramSymbol symbol_at(uintptr_t address);

}  // namespace etude::aot
