// SPDX-License-Identifier: Apache-2.0
// The data that a context attaches to values: their tangents, or their batches. For jvp and batch
// contexts only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "etude/core/internal/value_observer.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Tensors by the ids of the values they belong to. An entry is removed when its value dies; its
// tensor may be a tracked value itself.
// threads: confined to the thread that made it.
class FollowedValues final : private ValueObserver {
 public:
  using Map = std::unordered_map<uint64_t, Tensor>;

  FollowedValues() = default;
  explicit FollowedValues(Map values) : values_(std::move(values)) {}
  ~FollowedValues() {
    // The tensors die here and report their deaths; they are no longer in the map.
    const Map dying = std::exchange(values_, {});
  }

  void set(uint64_t id, Tensor x) { std::swap(values_[id], x); }
  // Null if there is none.
  const Tensor* find(uint64_t id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? nullptr : &found->second;
  }
  // Drops the entry of a value before the value dies.
  void forget(uint64_t id) noexcept { value_died(id); }
  const Map& all() const noexcept { return values_; }

 private:
  void value_died(uint64_t id) noexcept override {
    const auto found = values_.find(id);
    if (found == values_.end()) return;
    const Tensor dying = std::move(found->second);
    values_.erase(found);
  }

  Map values_;
};

}  // namespace internal
}  // namespace etude
