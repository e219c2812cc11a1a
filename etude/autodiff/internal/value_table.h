// SPDX-License-Identifier: Apache-2.0
// The values known to a tape, by value id: an open-addressing table, since every taped call looks
// values up here a few times. Ids come from a counter, so a multiplicative hash spreads them well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

struct KnownValue {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint64_t id = 0;          // 0: an empty slot
  uint32_t record = kNone;  // the record whose result it is; kNone: watched
  uint32_t slot = 0;        // its number on this tape, where cotangents are collected
  uint32_t uses = 0;        // number of record inputs that are this value
  bool is_alive = true;
};

// Pointers into the table are valid until the next insertion or removal.
class ValueTable {
 public:
  KnownValue* find(uint64_t id) noexcept {
    return const_cast<KnownValue*>(std::as_const(*this).find(id));
  }
  const KnownValue* find(uint64_t id) const noexcept {
    if (size_ == 0 || id == 0) return nullptr;
    for (std::size_t i = home(id);; i = (i + 1) & mask_) {
      if (places_[i].id == id) return &places_[i];
      if (places_[i].id == 0) return nullptr;
    }
  }
  // The entry of this id, inserted if missing. If it throws, nothing has changed.
  std::pair<KnownValue*, bool> insert(uint64_t id) {
    if ((size_ + 1) * 2 > places_.size()) grow();
    std::size_t i = home(id);
    for (; places_[i].id != 0; i = (i + 1) & mask_) {
      if (places_[i].id == id) return {&places_[i], false};
    }
    places_[i] = KnownValue{.id = id};
    ++size_;
    return {&places_[i], true};
  }
  // Later entries of the same run move up, so that no tombstones are needed.
  void erase(uint64_t id) noexcept {
    KnownValue* found = find(id);
    if (found == nullptr) return;
    std::size_t hole = static_cast<std::size_t>(found - places_.data());
    for (std::size_t i = (hole + 1) & mask_; places_[i].id != 0; i = (i + 1) & mask_) {
      if (((i - home(places_[i].id)) & mask_) < ((i - hole) & mask_)) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole] = KnownValue{};
    --size_;
  }
  // Keeps its capacity unless that is large.
  void clear() noexcept {
    constexpr std::size_t kKept = 1 << 12;
    if (places_.size() > kKept) {
      places_ = {};
      mask_ = 0;
    } else if (size_ > 0) {
      for (KnownValue& place : places_) place = KnownValue{};
    }
    size_ = 0;
  }
  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t home(uint64_t id) const noexcept {
    return static_cast<std::size_t>((id * 0x9E3779B97F4A7C15ull) >> 32) & mask_;
  }
  void grow() {
    std::vector<KnownValue> other(places_.empty() ? 128 : places_.size() * 4);
    other.swap(places_);  // after the allocation, which may throw
    mask_ = places_.size() - 1;
    for (const KnownValue& value : other) {
      if (value.id == 0) continue;
      std::size_t i = home(value.id);
      while (places_[i].id != 0) i = (i + 1) & mask_;
      places_[i] = value;
    }
  }

  std::vector<KnownValue> places_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace internal
}  // namespace etude
