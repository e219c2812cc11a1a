// SPDX-License-Identifier: Apache-2.0
// Checks of errors and of their texts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/error.h"

namespace etude::testing {

// What f throws.
struct Caught {
  bool is_thrown = false;
  ErrorCode code{};
  std::string message;
};
// Small, since each call has one of its own.
template <class F>
Caught catch_error(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return {true, error.code(), error.what()};
  }
  return {};
}

// The message of what f throws.
template <class F>
std::string message_of(F&& f) {
  Caught caught = catch_error(f);
  return caught.is_thrown ? std::move(caught.message) : "no error";
}

inline void expect_code(const Caught& caught, ErrorCode code) {
  if (caught.is_thrown) {
    EXPECT_EQ(to_string(caught.code), to_string(code)) << caught.message;
  } else {
    ADD_FAILURE() << "no error was thrown";
  }
}

// The same of what must have this code.
template <class F>
std::string error_of(ErrorCode code, F&& f) {
  Caught caught = catch_error(f);
  expect_code(caught, code);
  return std::move(caught.message);
}

inline void expect_caught(const Caught& caught, ErrorCode code,
                          const std::vector<std::string_view>& fragments) {
  expect_code(caught, code);
  if (!caught.is_thrown) return;
  for (const std::string_view fragment : fragments) {
    EXPECT_NE(caught.message.find(fragment), std::string::npos)
        << "'" << fragment << "' is not in: " << caught.message;
  }
}

// Fails unless f throws this code and a message with all fragments.
template <class F>
void expect_error(F&& f, ErrorCode code, const std::vector<std::string_view>& fragments) {
  expect_caught(catch_error(f), code, fragments);
}

}  // namespace etude::testing
