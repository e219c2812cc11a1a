// SPDX-License-Identifier: Apache-2.0
// The one kind of cache on the way of a call: a table of each thread in which every entry has one
// place.
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

// Room for two entries of each of `kPlaces` hashes, made at the first use of a thread. An entry
// holds its whole key, and the caller compares it. Nothing is locked. A table outlives the
// thread-local objects of its thread. Entry::table_was_made(), where there is one, is called once a
// table is there. confined to the thread, as are the entries that it gives.
template <class Entry, std::size_t kPlaces>
class ThreadTable {
  static_assert(std::has_single_bit(kPlaces) && kPlaces > 1);

 public:
  // The entry of this hash that was asked for last. The place is named by the highest bits: those
  // of a product by an odd constant are good.
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
  // The entry for which `holds` is true, as the latest one; or else the older one of this hash, to
  // be written over. With one entry a hash, two keys of one place that take turns would drive each
  // other out for ever.
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

  // Beside the thread's objects, since it is read at every call.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Entry* entries_ = nullptr;
};

}  // namespace internal
}  // namespace etude
