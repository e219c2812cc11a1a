// SPDX-License-Identifier: Apache-2.0
// One object of each thread that takes no thread-local storage of its own. All libraries that are
// opened while a process runs (dlopen, as Python's import does) share the thread-local storage that
// the process has set aside for them: some hundred bytes together.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace etude::internal {

// The objects of one thread, by slot.
struct ThreadObjects {
  static constexpr std::size_t kSlots = 64;
  std::array<void*, kSlots> at{};
};
[[gnu::tls_model("initial-exec")]] extern thread_local constinit ThreadObjects* thread_objects;

// A slot of every thread. destroy(object) is called when a thread with an object there ends.
// throws: kResourceExhausted if all slots are taken: a T of ThreadObject more than there may be.
std::size_t new_thread_slot(void (*destroy)(void*) noexcept);
// Puts an object into a slot of this thread. throws: std::bad_alloc; the caller owns it then.
void put_thread_object(std::size_t slot, void* object);

// T: default constructible, and known to the sources of the library alone, since a slot belongs to
// one copy of this template. The object outlives the thread-local variables of its thread, and is
// made again if it is used later still. The object of the main thread is not destroyed. confined to
// the thread, as is the object.
template <class T>
class ThreadObject {
 public:
  // Null if this thread has none.
  static T* find() {
    return thread_objects == nullptr ? nullptr : static_cast<T*>(thread_objects->at[slot()]);
  }
  // Makes it at the first use. throws: std::bad_alloc, and the errors of T's constructor.
  static T& get() {
    if (T* const found = find(); found != nullptr) [[likely]]
      return *found;
    return make();
  }

 private:
  static std::size_t slot() {
    static const std::size_t made =
        new_thread_slot([](void* object) noexcept { delete static_cast<T*>(object); });
    return made;
  }
  [[gnu::noinline, gnu::cold]] static T& make() {
    auto made = std::make_unique<T>();
    put_thread_object(slot(), made.get());
    return *made.release();
  }
};

}  // namespace etude::internal
