// SPDX-License-Identifier: Apache-2.0
// Computes a bounded number of values ahead of time in one background thread. Used by Loader.
// Values come in the order of the calls, so nothing depends on timing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace data::internal {

// The thread and its queue, for values of any type; programs that use a Prefetcher compile none of
// it.
// threads: confined to the thread that made it; `produce` runs in the background thread and must be
// safe there.
class PrefetchQueue {
 public:
  using Value = std::shared_ptr<void>;

  // Starts at once and calls `produce` until `capacity` values are ready.
  PrefetchQueue(std::function<Value()> produce, std::size_t capacity);
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;
  // Waits for a running call of `produce`; values that were not taken are dropped.
  ~PrefetchQueue();

  // The next value. throws: what `produce` threw for it; after that no value is produced.
  Value take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class T>
class Prefetcher {
 public:
  Prefetcher(std::function<T()> produce, std::size_t capacity)
      : queue_([made = std::move(produce)] { return std::make_shared<T>(made()); }, capacity) {}

  T take() { return std::move(*static_cast<T*>(queue_.take().get())); }

 private:
  PrefetchQueue queue_;
};

}  // namespace data::internal
}  // namespace etude
