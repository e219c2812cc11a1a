// SPDX-License-Identifier: Apache-2.0
// Headers for callers of a compiled model: one for C, and one for C++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "etude/aot/compile_model.h"
#include "etude/aot/state_file.h"

namespace etude::aot {

// A function in C that chooses among models of one graph for several sizes.
struct HeaderFacts {
  std::string name;                // of the function
  std::vector<ModelFacts> models;  // one, with this name; or one for each size, NAME_32
  std::vector<int64_t> sizes;      // empty for one model
  StateFacts state;                // its arrays are the last inputs of each model
};

// Whether a name means something in C or C++, or in the headers that NAME.h includes: int, NULL,
// main. Arguments of such names get others; a function cannot have such a name.
bool is_taken_in_c(std::string_view name);

// NAME.h: numbers of elements, bytes of scratch memory, and the function NAME() with an argument
// for each array. With several sizes its first argument is the size (ModelCompiler::add_choice);
// with state a pointer to the state comes before the scratch memory.
std::string c_header(const HeaderFacts& facts);
// NAME.hpp: the same with spans, and exceptions.
std::string cpp_header(const HeaderFacts& facts);

}  // namespace etude::aot
