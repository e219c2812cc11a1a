// SPDX-License-Identifier: Apache-2.0
// Descriptions of kinds from random texts: a description that is written and read back, or an
// Error. Nothing is made of them, so no size in a text takes memory.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "etude/base/error.h"
#include "etude/kinds/kinds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const etude::kinds::Description read = etude::kinds::from_json(text);
    if (!(etude::kinds::from_json(etude::kinds::to_json(read)) == read)) std::abort();
  } catch (const etude::Error& error) {
    if (error.code() == etude::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
