// SPDX-License-Identifier: Apache-2.0
// Any bytes are an object file that can be linked or an Error; linked files are not run. Half of
// the inputs are files, the others are changes of a valid file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "etude/base/error.h"
#include "etude/codegen/load_object.h"
#include "etude/codegen/test_object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    bytes = etude::codegen::TestObject().bytes();
    for (std::size_t i = 1; i + 3 <= size; i += 3) {
      const std::size_t place = data[i] + 256 * std::size_t{data[i + 1]};
      bytes[place % bytes.size()] = static_cast<char>(data[i + 2]);
    }
  }
  try {
    etude::codegen::load_object(bytes);
  } catch (const etude::Error&) {
    return 0;
  }
  return 0;
}
