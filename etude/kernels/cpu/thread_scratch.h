// SPDX-License-Identifier: Apache-2.0
// Work memory that a kernel needs at every call: one block per thread and purpose, which only
// grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace etude::kernels::cpu {

// At least `count` elements with undefined values, 64-byte aligned, until this thread asks for the
// same T and kPurpose again. A kernel that holds one must not call another of the same purpose.
// throws: std::bad_alloc.
template <class T, int kPurpose>
T* thread_scratch(int64_t count) {
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<T, Free> block;
  thread_local int64_t size = 0;
  if (count > size) {
    block.reset();
    size = 0;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    block.reset(static_cast<T*>(::operator new (bytes, std::align_val_t{64})));
    size = count;
  }
  return block.get();
}

}  // namespace etude::kernels::cpu
