// SPDX-License-Identifier: Apache-2.0
// Warnings: programs that run, but probably not as their author meant. They go to the standard
// error stream unless a handler takes them. Errors are thrown instead: error.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {

using WarningHandler = std::function<void(std::string_view)>;

// Sends warnings to `handler`, and returns the one before; an empty one stands for the error
// stream. threads: safe.
WarningHandler set_warning_handler(WarningHandler handler);

namespace internal {

// Says it. threads: safe.
void warn(std::string_view message);
// Says it the first time that this key is seen in the process. threads: safe.
void warn_once(std::string_view key, std::string_view message);
// Forgets the keys that were seen. For tests.
void forget_warnings();

}  // namespace internal
}  // namespace etude
