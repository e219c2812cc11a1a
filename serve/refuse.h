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

// Converts a caught exception to an Error.
inline Error error_of(const std::exception& caught) {
  if (const auto* error = dynamic_cast<const Error*>(&caught)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&caught) != nullptr) {
    return {ErrorCode::kResourceExhausted, "the server has no memory left for this request"};
  }
  return {ErrorCode::kInternal, caught.what()};
}

}  // namespace etude::serve
