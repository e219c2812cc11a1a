// SPDX-License-Identifier: Apache-2.0
#include "etude/base/thread_object.h"

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include <pthread.h>

#include "etude/base/error.h"

namespace etude::internal {

thread_local constinit ThreadObjects* thread_objects = nullptr;

namespace {

constinit std::array<std::atomic<void (*)(void*) noexcept>, ThreadObjects::kSlots> destroyers{};
constinit std::atomic<std::size_t> slots_taken = 0;

// The latest slots first. If the destructor of an object makes another object again, the next round
// destroys it.
void destroy_all(void* of_thread) {
  constexpr int kRounds = 4;
  const std::unique_ptr<ThreadObjects> objects(static_cast<ThreadObjects*>(of_thread));
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = objects->at.size(); i-- > 0;) {
      void* const object = std::exchange(objects->at[i], nullptr);
      if (object != nullptr) destroyers[i].load(std::memory_order_acquire)(object);
    }
  }
  thread_objects = nullptr;
}

// A key of the threads library. Its destructors run after the destructors of all thread-local
// variables.
pthread_key_t key() {
  static const pthread_key_t made = [] {
    pthread_key_t fresh = 0;
    if (pthread_key_create(&fresh, destroy_all) != 0)
      throw Error(ErrorCode::kResourceExhausted, "the process has no thread key left");
    return fresh;
  }();
  return made;
}

}  // namespace

std::size_t new_thread_slot(void (*destroy)(void*) noexcept) {
  const std::size_t slot = slots_taken.fetch_add(1, std::memory_order_relaxed);
  if (slot >= destroyers.size())
    throw Error(ErrorCode::kResourceExhausted, "no slot is left for an object of each thread");
  destroyers[slot].store(destroy, std::memory_order_release);
  return slot;
}

void put_thread_object(std::size_t slot, void* object) {
  if (thread_objects == nullptr) {
    auto made = std::make_unique<ThreadObjects>();
    if (pthread_setspecific(key(), made.get()) != 0) throw std::bad_alloc();
    thread_objects = made.release();
  }
  thread_objects->at[slot] = object;
}

}  // namespace etude::internal
