// SPDX-License-Identifier: Apache-2.0
// What tensors hold, once nothing is compiled behind the test: a program that is being made holds
// the graph that it is made of, also one of a test before.
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
