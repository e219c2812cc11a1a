// SPDX-License-Identifier: Apache-2.0
// Headers for callers of a compiled model: one for C, and one for C++.
#pragma once

#include <string>

#include "etude/aot/compile_model.h"

namespace etude::aot {

// NAME.h: numbers of elements, bytes of scratch memory, and the function NAME() with an argument
// for each array.
std::string c_header(const ModelFacts& facts);
// NAME.hpp: the same with spans of known sizes, and exceptions.
std::string cpp_header(const ModelFacts& facts);

}  // namespace etude::aot
