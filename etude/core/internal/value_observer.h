// SPDX-License-Identifier: Apache-2.0
// Notifies contexts when a value that they know by id dies, so that they can drop its data. For
// tape, jvp and recording contexts only.
#pragma once

#include <cstdint>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Registered on the thread that makes it, for its lifetime.
// threads: confined to that thread.
class ValueObserver {
 public:
  ValueObserver() noexcept;
  ValueObserver(const ValueObserver&) = delete;
  ValueObserver& operator=(const ValueObserver&) = delete;

  // The value with this id was destroyed or overwritten on this thread.
  virtual void value_died(uint64_t id) noexcept = 0;

 protected:
  ~ValueObserver();

 private:
  friend void notify_death(uint64_t id) noexcept;
  ValueObserver* next_;
};

// Calls value_died of every observer of this thread.
void notify_death(uint64_t id) noexcept;
// A number that no other value or buffer has had. threads: thread-safe.
uint64_t new_value_id() noexcept;

}  // namespace internal
}  // namespace etude
