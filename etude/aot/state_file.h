// SPDX-License-Identifier: Apache-2.0
// The state of a compiled model as a file of its own, so that new weights need no new object. A C
// program reads the file into memory and passes the address.
//
//   offset  bytes
//    0      8      "etudest1"
//    8      4      CRC-32C of the layout: the lines "PATH: TYPE\n" of all arrays
//   12      4      0
//   16      8      number of bytes of the file
//   24      40     0
//   64             the arrays in order, each at a multiple of 64
//
// Numbers are in the byte order of the machine, as the arrays are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::aot {

struct StateFacts {
  struct Array {
    std::string path;
    const Type* type = nullptr;
    uint64_t offset = 0;
  };
  std::vector<Array> arrays;
  uint64_t bytes = 0;  // of the file
  uint32_t layout = 0;
};

inline constexpr std::string_view kStateMark = "etudest1";

using State = std::vector<std::pair<std::string, Tensor>>;

StateFacts state_facts(const State& state);
std::string state_file(const State& state);

}  // namespace etude::aot
