// SPDX-License-Identifier: Apache-2.0
// A table of interned values. Each value exists once in a process, so pointers compare in place of
// values.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_set>
#include <utility>

#include "etude/base/internal/fork_lock.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Items are never removed, and pointers to them stay valid. Hash and Equal accept items and lookup
// keys (both have `is_transparent`). threads: thread-safe: 16 parts with a lock each; readers share
// the lock. A child of fork() finds the locks open.
template <class Item, class Hash, class Equal>
class InternTable {
 public:
  // The item that equals `key`; if there is none, the new item from make(). make() runs under a
  // lock. It may return nothing if there is no room; then this returns null.
  template <class Key, class Make>
  const Item* find_or_make(const Key& key, Make&& make) {
    const std::size_t hash = Hash{}(key);
    Part& part = parts_[hash % parts_.size()];
    {
      std::shared_lock lock(part.mutex);
      if (const auto found = part.items.find(key); found != part.items.end()) return &*found;
    }
    std::unique_lock lock(part.mutex);
    if (const auto found = part.items.find(key); found != part.items.end()) return &*found;
    std::optional<Item> made = std::forward<Make>(make)();
    return made ? &*part.items.insert(*std::move(made)).first : nullptr;
  }

 private:
  struct Part {
    std::shared_mutex mutex;
    std::unordered_set<Item, Hash, Equal> items;  // node-based: addresses are stable
  };
  static bool try_lock(void* table) {
    auto& parts = static_cast<InternTable*>(table)->parts_;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].mutex.try_lock()) continue;
      while (i > 0) parts[--i].mutex.unlock();
      return false;
    }
    return true;
  }
  static void unlock(void* table) {
    for (Part& part : static_cast<InternTable*>(table)->parts_) part.mutex.unlock();
  }
  static void renew(void* table) {
    for (Part& part : static_cast<InternTable*>(table)->parts_) internal::renew(part.mutex);
  }

  std::array<Part, 16> parts_;
  ForkLock fork_lock_{this, {try_lock, unlock, renew}};
};

}  // namespace internal
}  // namespace etude
