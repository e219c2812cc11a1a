// SPDX-License-Identifier: Apache-2.0
// Memory that a thread reuses from one derivative to the next: taken from the thread at
// construction, returned at destruction. Used by tapes, cotangents and loops of scan.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The only Kept of this thread. Null after the thread's exit has destroyed it, when destructors of
// its other objects may still call this.
template <class Kept>
Kept* kept_by_thread() {
  thread_local constinit bool ended = false;
  struct Holder {
    Kept kept;
    ~Holder() { ended = true; }
  };
  if (ended) return nullptr;
  thread_local Holder holder;
  return &holder.kept;
}

// A vector whose memory the thread keeps for its next vector of the same type and use. It starts
// with the elements that its predecessor left.
template <class E, class Use = void>
class KeptVector {
 public:
  KeptVector() {
    if (Memory* memory = kept_by_thread<Memory>()) elements_ = std::exchange(memory->elements, {});
  }
  KeptVector(KeptVector&&) noexcept = default;
  KeptVector& operator=(KeptVector&&) = delete;
  ~KeptVector() {
    Memory* memory = kept_by_thread<Memory>();
    if (memory == nullptr || elements_.capacity() > kMostKept) return;
    if (memory->elements.capacity() < elements_.capacity()) {
      memory->elements = std::move(elements_);
    }
  }
  std::vector<E>& elements() { return elements_; }
  const std::vector<E>& elements() const { return elements_; }

 private:
  struct Memory {
    std::vector<E> elements;
  };
  static constexpr std::size_t kMostKept = (std::size_t{1} << 27) / sizeof(E);  // 128 MiB
  std::vector<E> elements_;
};

// An array in such memory. Its elements are initially the elements of its predecessor.
template <class E, class Use = void>
class KeptArray {
 public:
  explicit KeptArray(std::size_t size) {
    if (memory_.elements().size() < size) memory_.elements().resize(size);
  }
  E& operator[](std::size_t i) { return memory_.elements()[i]; }
  const E& operator[](std::size_t i) const { return memory_.elements()[i]; }
  E* data() { return memory_.elements().data(); }

 private:
  KeptVector<E, Use> memory_;
};

}  // namespace internal
}  // namespace etude
