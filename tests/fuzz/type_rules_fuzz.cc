// SPDX-License-Identifier: Apache-2.0
// Any attributes and sizes of a call are types or an Error, for all records.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/extreme_call.h"

namespace {

struct Bytes {
  const uint8_t* at;
  std::size_t left;
  uint8_t next() {
    if (left == 0) return 0;
    --left;
    return *at++;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Bytes in{data, size};
  const etude::extreme::Call call = etude::extreme::call(in);
  if (std::getenv("ETUDE_FUZZ_SHOW") != nullptr)
    std::fprintf(stderr, "%s\n", call.to_string().c_str());
  if (!etude::extreme::is_answered(call)) {
    std::fprintf(stderr, "kInternal: %s\n", call.to_string().c_str());
    std::abort();
  }
  return 0;
}
