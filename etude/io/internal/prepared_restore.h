// SPDX-License-Identifier: Apache-2.0
// The restore of an object in two phases, so that a checkpoint is restored as a whole or not at
// all: every object is prepared before the first object changes. Included by trackee.h and
// checkpoint.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {
namespace internal {

// A restore whose values are checked and copied. It has `exchange`, or `run` and `undo`.
struct PreparedRestore {
  // Exchanges the object and the saved values, which are then the former values of the object. A
  // second call undoes the first. Does not throw.
  std::function<void()> exchange = nullptr;
  // For an object that only a function of the program can change. Both may throw. `undo` is null if
  // the program has no function that reads the former state.
  std::function<void()> run = nullptr;
  std::function<void()> undo = nullptr;
  std::string path = {};  // names it in errors
};

// Restores all objects, or none: calls each `exchange`, then each `run`. If a `run` throws, undoes
// it, the runs before it and all exchanges.
//
// throws: kInvalidArgument, with `source`, the path and the reason, if a `run` throws; the error
//         itself if there was no memory. The message lists the objects whose `undo` failed or is
//         null.
void restore_all(std::vector<PreparedRestore> objects, std::string_view source);

// Exchanges an object and a value of its type.
template <class T>
std::function<void()> exchange_with(T& object, T value) {
  static_assert(std::is_nothrow_swappable_v<T>);
  return [&object, other = std::move(value)]() mutable {
    using std::swap;
    swap(object, other);
  };
}

}  // namespace internal
}  // namespace io
}  // namespace etude
