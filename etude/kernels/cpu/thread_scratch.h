// SPDX-License-Identifier: Apache-2.0
// Work memory for kernels that need it at every call: one block per thread and purpose, which never
// shrinks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etude::kernels::cpu {

// Returns the number of a new block. Every thread may have such a block.
std::size_t new_scratch_block() noexcept;
// Returns at least `bytes` bytes of the block of this thread. throws: std::bad_alloc.
void* scratch_block(std::size_t block, std::size_t bytes);

// Returns at least `count` elements with undefined values, 64-byte aligned. They are valid until
// this thread next requests the same T and kPurpose. A kernel that uses them must not call another
// kernel with the same purpose.
// throws: std::bad_alloc.
template <class T, int kPurpose>
T* thread_scratch(int64_t count) {
  static const std::size_t block = new_scratch_block();
  return static_cast<T*>(scratch_block(block, static_cast<std::size_t>(count) * sizeof(T)));
}

}  // namespace etude::kernels::cpu
