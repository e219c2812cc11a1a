// SPDX-License-Identifier: Apache-2.0
// Environment variables that choose among a few words, such as ETUDE_ISA. Lists and numbers are
// read where they are used.
#pragma once

#include <span>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Which of `choices` the environment variable `name` is, counted from 0. Gives -1 where it is unset
// or empty, and where it is another word: a warning then tells that it is ignored, and what to set.
//
// threads: safe, as long as none changes the environment.
int environment_choice(const char* name, std::span<const std::string_view> choices);

}  // namespace internal
}  // namespace etude
