// SPDX-License-Identifier: Apache-2.0
// The memory of tensors, after background compiles have ended: a program that is being made holds
// its graph, even one of an earlier test.
#pragma once

#include <cstdint>

#include "etude/codegen/compiler.h"
#include "etude/core/buffer.h"

namespace etude::tests {

inline int64_t live_tensors() {
  wait_for_compile();
  return memory_stats().live_tensors;
}

inline int64_t live_bytes() {
  wait_for_compile();
  return memory_stats().live_bytes;
}

}  // namespace etude::tests
