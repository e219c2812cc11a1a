// SPDX-License-Identifier: Apache-2.0
// Work that nothing waits for, on the one thread of low priority that works behind the program.
// Lazy segments have their programs made there (lazy/program.h). What stands above this folder has
// that thread (codegen/serve.cc), since it makes code on it as well.
#pragma once

#include <functional>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Takes a piece of work; false: it will not be done. It may not throw. fork() waits until the piece
// that is being done is over; what waits is done in the child as well.
using Soon = bool (*)(std::function<void()> work) noexcept;
// thread-safe.
void set_soon(Soon soon) noexcept;

// False if there is nobody who does it: the caller may do it himself. Pieces are done in the order
// in which they were given, on one thread. wait_for_compile() waits for them. thread-safe.
bool do_soon(std::function<void()> work) noexcept;

}  // namespace internal
}  // namespace etude
