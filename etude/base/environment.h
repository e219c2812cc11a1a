// SPDX-License-Identifier: Apache-2.0
// Environment variables with a few allowed words, such as ETUDE_ISA. Lists and numbers are parsed
// where they are used.
#pragma once

#include <span>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Returns the index in `choices` of the value of environment variable `name`. Returns -1 if the
// variable is unset, empty, or another word. For another word a warning names the allowed words.
//
// threads: thread-safe while no thread changes the environment.
int environment_choice(const char* name, std::span<const std::string_view> choices);

}  // namespace internal
}  // namespace etude
