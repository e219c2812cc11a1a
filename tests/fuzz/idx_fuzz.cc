// SPDX-License-Identifier: Apache-2.0
// Any bytes are an IDX array, and a file of CIFAR-10, or an Error, never a crash and never much
// memory.
#include <cstddef>
#include <cstdint>

#include "etude/base/error.h"
#include "etude/data/cifar.h"
#include "etude/data/idx.h"
#include "etude/files/read_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  // Limits that a file of a fuzzer can reach, far below the memory of the process.
  static const etude::ReadLimits before =
      etude::set_read_limits({.free_bytes = int64_t{8} << 20, .bytes_per_byte = 20});
  static_cast<void>(before);
  try {
    etude::data::parse_idx({data, size}, "fuzz.idx");
  } catch (const etude::Error&) {
  }
  try {
    etude::data::parse_cifar10({data, size}, "fuzz.bin");
  } catch (const etude::Error&) {
  }
  return 0;
}
