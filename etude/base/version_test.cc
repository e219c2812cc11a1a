// SPDX-License-Identifier: Apache-2.0
#include "etude/version.h"

#include <gtest/gtest.h>

#include <string>

namespace etude {
namespace {

TEST(Version, LibraryAgreesWithHeaders) {
  EXPECT_EQ(version(), std::to_string(ETUDE_VERSION_MAJOR) + "." +
                           std::to_string(ETUDE_VERSION_MINOR) + "." +
                           std::to_string(ETUDE_VERSION_PATCH));
}

TEST(Version, IsOneComparableNumber) {
  EXPECT_EQ(ETUDE_VERSION / 1000000, ETUDE_VERSION_MAJOR);
  EXPECT_EQ(ETUDE_VERSION / 1000 % 1000, ETUDE_VERSION_MINOR);
}

}  // namespace
}  // namespace etude
