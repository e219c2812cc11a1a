// SPDX-License-Identifier: Apache-2.0
// Macros that throw etude::Error with a formatted message. For .cc files only: uses {fmt}, which no
// installed header may include.
#pragma once

#include <string>

#include <fmt/format.h>

#include "etude/base/error.h"

namespace etude::internal {
[[noreturn]] void throw_error(ErrorCode code, std::string message);
[[noreturn]] void throw_check(const char* file, int line, const char* condition,
                              const std::string& message);
}  // namespace etude::internal

// Throws an Error with the given code: ETUDE_THROW(kNotFound, "no op is called '{}'", name).
#define ETUDE_THROW(code, ...) \
  ::etude::internal::throw_error(::etude::ErrorCode::code, ::fmt::format(__VA_ARGS__))

// For errors that a caller can cause: kInvalidArgument unless `condition` holds.
#define ETUDE_REQUIRE(condition, ...)                             \
  do {                                                            \
    if (!(condition)) ETUDE_THROW(kInvalidArgument, __VA_ARGS__); \
  } while (false)

// The same with another error code: ETUDE_REQUIRE_CODE(kOutOfRange, i < n, "...").
#define ETUDE_REQUIRE_CODE(code, condition, ...)      \
  do {                                                \
    if (!(condition)) ETUDE_THROW(code, __VA_ARGS__); \
  } while (false)

// For bugs in Etude: throws kInternal, never aborts.
#define ETUDE_CHECK(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition))                                                                             \
      ::etude::internal::throw_check(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
