// SPDX-License-Identifier: Apache-2.0
// A thread-local hash table for caches that are read at each call of an op.
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

// `kPlaces` buckets of two entries each. A thread allocates its table on first use. Then
// Entry::table_was_made() is called, if it is declared. An entry stores its whole key, which the
// caller compares. There are no locks. A table outlives the thread-local variables of its thread.
// threads: confined to the thread, as are the returned entries.
template <class Entry, std::size_t kPlaces>
class ThreadTable {
  static_assert(std::has_single_bit(kPlaces) && kPlaces > 1);

 public:
  // The most recent entry of the bucket of this hash. The highest bits of the hash select the
  // bucket. They are well mixed if the hash is a product with an odd constant.
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
  // Returns the entry for which `holds` is true, and makes it the most recent entry of its bucket.
  // If there is no such entry, returns the older entry of the bucket, and the caller overwrites it.
  // With one entry per bucket, two alternating keys would evict each other at each call.
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

  // Not a ThreadObject, since every call of an op reads this pointer.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Entry* entries_ = nullptr;
};

}  // namespace internal
}  // namespace etude
