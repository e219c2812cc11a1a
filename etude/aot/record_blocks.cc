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

using etude::aot::kTwinShift;

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  constexpr std::size_t kApart = 2 * kTwinShift;
  const std::size_t count = std::max<std::size_t>(bytes, 1);
  const std::size_t shift = alignment < kApart && etude::aot::TwinScope::is_open() ? kTwinShift : 0;
  void* whole = nullptr;
  if (posix_memalign(&whole, std::max(alignment, kApart), count + shift) != 0) return nullptr;
  char* const out = static_cast<char*>(whole) + shift;
  std::memset(whole, 0, count + shift);
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
  const bool is_twin = reinterpret_cast<uintptr_t>(p) % (2 * kTwinShift) == kTwinShift;
  std::free(static_cast<char*>(p) - (is_twin ? kTwinShift : 0));
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
