// SPDX-License-Identifier: Apache-2.0
// Errors of the server: Error with a formatted message. The macros of etude/base/check.h are for
// the sources of the library.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "etude/base/error.h"

namespace etude::serve {

template <class... A>
[[noreturn]] void refuse(ErrorCode code, fmt::format_string<A...> text, A&&... args) {
  throw Error(code, fmt::format(text, std::forward<A>(args)...));
}

// Made before it is needed. A copy takes no memory.
inline const Error kNoMemory(ErrorCode::kResourceExhausted,
                             "the server has no memory left for this request");

// Converts a caught exception to an Error.
inline Error error_of(const std::exception& caught) noexcept {
  if (const auto* error = dynamic_cast<const Error*>(&caught)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&caught) != nullptr) return kNoMemory;
  try {
    return {ErrorCode::kInternal, caught.what()};
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

}  // namespace etude::serve
