// SPDX-License-Identifier: Apache-2.0
// A cache on the call path: a thread-local table that maps each hash to one place.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "etude/base/thread_object.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Room for two entries in each of `kPlaces` places, allocated on first use by a thread. An entry
// holds its whole key, and the caller compares it. No locks. A table outlives the thread-local
// objects of its thread. Entry::table_was_made(), if declared, is called after allocation.
// threads: confined to the thread, as are the returned entries.
template <class Entry, std::size_t kPlaces>
class ThreadTable {
  static_assert(std::has_single_bit(kPlaces) && kPlaces > 1);

 public:
  // The most recent entry of this hash. The place is the highest bits of the hash, which are well
  // mixed in a product with an odd constant.
  [[gnu::always_inline]] static Entry& latest(uint64_t hash) {
    Entry* entries = entries_;
    if (entries == nullptr) [[unlikely]]
      entries = make();
    return entries[2 * (hash >> (64 - std::countr_zero(kPlaces)))];
  }
  struct Found {
    Entry& entry;
    bool holds;
  };
  // Returns the entry for which `holds` is true, and makes it the most recent entry of its place.
  // Without such an entry, returns the older entry of the place, which the caller overwrites. With
  // one entry per place, two alternating keys would evict each other forever.
  template <class Holds>
  [[gnu::always_inline]] static Found find(uint64_t hash, const Holds& holds) {
    Entry& first = latest(hash);
    if (holds(std::as_const(first))) [[likely]]
      return {first, true};
    std::swap(first, (&first)[1]);
    return {first, holds(std::as_const(first))};
  }

 private:
  struct Entries {
    std::array<Entry, 2 * kPlaces> all{};
    ~Entries() { entries_ = nullptr; }
  };
  [[gnu::noinline]] static Entry* make() {
    entries_ = ThreadObject<Entries>::get().all.data();
    if constexpr (requires { Entry::table_was_made(); }) Entry::table_was_made();
    return entries_;
  }

  // Not a ThreadObject, since every call of an op reads it.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Entry* entries_ = nullptr;
};

}  // namespace internal
}  // namespace etude
