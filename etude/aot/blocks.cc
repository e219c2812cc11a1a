// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/blocks.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace etude::aot {
namespace {

// The table is kept in memory that operator new does not give: it would be asked by itself.
template <class T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <class U>
  explicit(false) Allocator(const Allocator<U>& /*other*/) {}
  T* allocate(std::size_t count) {
    void* const out = std::malloc(count * sizeof(T));
    if (out == nullptr) std::abort();
    return static_cast<T*>(out);
  }
  void deallocate(T* p, std::size_t /*count*/) { std::free(p); }
  friend bool operator==(const Allocator&, const Allocator&) { return true; }
};

struct Table {
  std::mutex mutex;
  std::map<uintptr_t, std::size_t, std::less<>, Allocator<std::pair<const uintptr_t, std::size_t>>>
      blocks;
  bool is_filled = false;
};

// Made at the first block and never destroyed: blocks come and go before and after all statics.
Table& table() {
  alignas(Table) static std::byte memory[sizeof(Table)];
  static Table* const made = new (memory) Table;
  return *made;
}

}  // namespace

void note_block(void* begin, std::size_t bytes) noexcept {
  if (begin == nullptr) return;
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.is_filled = true;
  t.blocks[reinterpret_cast<uintptr_t>(begin)] = bytes == 0 ? 1 : bytes;
}

void forget_block(void* begin) noexcept {
  if (begin == nullptr) return;
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.blocks.erase(reinterpret_cast<uintptr_t>(begin));
}

Block find_block(uintptr_t address) noexcept {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  auto at = t.blocks.upper_bound(address);
  if (at == t.blocks.begin()) return {};
  --at;
  if (address > at->first + at->second) return {};
  return {at->first, at->second};
}

bool are_blocks_recorded() noexcept {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  return t.is_filled;
}

}  // namespace etude::aot
