// SPDX-License-Identifier: Apache-2.0
// The operators new and delete of a program that compiles models: blocks are noted (blocks.h), and
// begin as zeros, so that no pointer of a block before them is left in their gaps.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "etude/aot/blocks.h"

namespace {

using etude::aot::kBlocksApart;
using etude::aot::kBlockShift;
using etude::aot::kTwinShift;

// The distance of a block from a multiple of kBlocksApart.
std::size_t shift_of(std::size_t alignment) noexcept {
  if (alignment <= kTwinShift) {
    return kBlockShift + (etude::aot::TwinScope::is_open() ? kTwinShift : 0);
  }
  return kBlockShift % alignment == 0 ? kBlockShift : 0;
}

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes > PTRDIFF_MAX) return nullptr;
  const std::size_t shift = shift_of(alignment);
  const std::size_t whole_bytes = shift + std::max<std::size_t>(bytes, 1);
  void* whole = nullptr;
  if (posix_memalign(&whole, std::max(alignment, kBlocksApart), whole_bytes) != 0) return nullptr;
  char* const out = static_cast<char*>(whole) + shift;
  std::memset(whole, 0, whole_bytes);
  etude::aot::note_block(out, bytes);
  return out;
}
void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const out = take(bytes, alignment);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}
void give(void* p) noexcept {
  if (p == nullptr) return;
  etude::aot::forget_block(p);
  // Undoes shift_of(): a block at a multiple was not shifted.
  std::free(static_cast<char*>(p) - reinterpret_cast<uintptr_t>(p) % kBlocksApart);
}

}  // namespace

void* operator new(std::size_t bytes) { return take_or_throw(bytes, 16); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 16); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 16); }
void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, std::size_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t) noexcept { give(p); }
void operator delete(void* p, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give(p); }
