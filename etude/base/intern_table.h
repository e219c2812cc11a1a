// SPDX-License-Identifier: Apache-2.0
// The one kind of table for values that exist once in a process, so that equality is identity.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_set>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Items are never removed, and pointers to them are good for ever. Hash and Equal take items and
// what they are looked up by (both have `is_transparent`). thread-safe: 16 parts with a lock each,
// of which readers hold theirs together.
template <class Item, class Hash, class Equal>
class InternTable {
 public:
  // The item that equals `key`, else the one that make() gives. make() runs under a lock and may
  // say that there is no room (absent): then this is null.
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
    std::unordered_set<Item, Hash, Equal> items;  // nodes, which stay where they are
  };
  std::array<Part, 16> parts_;
};

}  // namespace internal
}  // namespace etude
