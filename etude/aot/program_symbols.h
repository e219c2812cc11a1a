// SPDX-License-Identifier: Apache-2.0
// Names of the functions and constants of this process, from the symbol tables of the program and
// its shared libraries. Unlike dladdr(), it also finds names that are local to a source.
#pragma once

#include <cstdint>
#include <string>

namespace etude::aot {

struct ProgramSymbol {
  std::string name;  // the linker name; "": unknown
  // For a local symbol, the name of its source file: "conv.cc"; for another library, its name.
  std::string source;
  uintptr_t begin = 0;
  uint64_t bytes = 0;
  bool is_function = false;
};

// The symbol at this address. In other libraries than the one with this code, only exported symbols
// that begin at the address are found.
//
// throws: kFailedPrecondition, with a remedy, if the file was stripped.
// threads: thread-safe. cost: the first call reads the table of a file.
ProgramSymbol symbol_at(uintptr_t address);

}  // namespace etude::aot
