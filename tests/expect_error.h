// SPDX-License-Identifier: Apache-2.0
// Checks of errors and of their texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/error.h"

namespace etude::tests {

// The message of the exception that f throws.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The message of an Error of f, which must have this code.
template <class F>
std::string error_of(ErrorCode code, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// The error that f throws. Fails if f throws nothing.
template <class F>
Error thrown_by(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return {ErrorCode::kInternal, "no error"};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Fails unless f throws an error whose message contains `text`.
template <class F>
void expect_message(F&& f, std::string_view text) {
  const std::string message = message_of(f);
  EXPECT_TRUE(contains(message, text)) << "'" << text << "' is not in: " << message;
}

// Fails unless f throws this code and a message with all fragments.
template <class F>
void expect_error(F&& f, ErrorCode code, const std::vector<std::string_view>& fragments) {
  try {
    f();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    for (const std::string_view fragment : fragments) {
      EXPECT_TRUE(contains(error.what(), fragment))
          << "'" << fragment << "' is not in: " << error.what();
    }
  }
}

}  // namespace etude::tests
