// SPDX-License-Identifier: Apache-2.0
#include "etude/base/error.h"

#include <cstddef>
#include <string>
#include <utility>

#include "etude/base/check.h"

namespace etude::internal {

void throw_error(ErrorCode code, std::string message) {
  // what() is a C string, which a NUL in a name from a file would end.
  for (std::size_t at = 0; (at = message.find('\0', at)) != std::string::npos;) {
    message.replace(at, 1, "\\0");
  }
  throw Error(code, std::move(message));
}

void throw_check(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(
      ErrorCode::kInternal,
      fmt::format("{} [{} does not hold at {}:{}]. This is a bug in Etude: please report it",
                  message, condition, file, line));
}

}  // namespace etude::internal
