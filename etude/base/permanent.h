// SPDX-License-Identifier: Apache-2.0
// The type of all global objects with a destructor: they are never destroyed. Threads may still run
// after main has returned, and destructors of a program's static objects may call ops.
// tests/core/exit_test.py refuses all other such objects.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace etude::internal {

// A T for a static variable:
//
//   static const Permanent<Attrs> rule(rule_attrs("apply"));
//   run_rule(*rule, call);
//
// The object is inside the variable, so leak checkers see its references. threads: as T.
template <class T>
class Permanent {
 public:
  Permanent() { ::new (static_cast<void*>(room_)) T(); }
  explicit Permanent(T value) { ::new (static_cast<void*>(room_)) T(std::move(value)); }
  Permanent(const Permanent&) = delete;
  Permanent& operator=(const Permanent&) = delete;

  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(room_)); }
  const T& operator*() const noexcept { return *std::launder(reinterpret_cast<const T*>(room_)); }
  T* operator->() noexcept { return &**this; }
  const T* operator->() const noexcept { return &**this; }

 private:
  alignas(T) std::byte room_[sizeof(T)];
};

}  // namespace etude::internal
