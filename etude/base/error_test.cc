// SPDX-License-Identifier: Apache-2.0
#include "etude/base/error.h"

#include <string>

#include <gtest/gtest.h>

#include "etude/base/check.h"

namespace etude {
namespace {

// A name from a file may have any characters, and what() is a C string.
TEST(Error, ANulInAMessageIsShown) {
  const std::string name("a\0b", 3);
  try {
    internal::throw_error(ErrorCode::kNotFound, "there is no tensor '" + name + "'. Name another");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "there is no tensor 'a\\0b'. Name another");
  }
}

}  // namespace
}  // namespace etude
