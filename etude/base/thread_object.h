// SPDX-License-Identifier: Apache-2.0
// Objects that exist once per thread without thread-local storage of their own. All libraries that
// are opened while a process runs (dlopen, as Python's import does) share the thread-local storage
// that the process has set aside for them: some hundred bytes together.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace etude::internal {

// The objects of one thread, indexed by slot.
struct ThreadObjects {
  static constexpr std::size_t kSlots = 64;
  std::array<void*, kSlots> at{};
};
[[gnu::tls_model("initial-exec")]] extern thread_local constinit ThreadObjects* thread_objects;

// Reserves a slot in every thread, and returns its index. When a thread with an object in the slot
// ends, destroy(object) is called.
// throws: kResourceExhausted if all slots are taken, that is, if ThreadObject has too many types T.
std::size_t new_thread_slot(void (*destroy)(void*) noexcept);
// Puts an object into a slot of this thread. throws: std::bad_alloc; the caller then still owns the
// object.
void put_thread_object(std::size_t slot, void* object);

// The T of this thread. T is default constructible. Only sources of the library may name T, since
// each copy of this template has a slot of its own. The object outlives the thread-local variables
// of its thread; a later use makes a new object. The object of the main thread is not destroyed.
// threads: confined to the thread, as is the object.
template <class T>
class ThreadObject {
 public:
  // Returns null if this thread has no object yet.
  static T* find() {
    return thread_objects == nullptr ? nullptr : static_cast<T*>(thread_objects->at[slot()]);
  }
  // Makes the object at the first use. throws: std::bad_alloc, and the exceptions of T's
  // constructor.
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
