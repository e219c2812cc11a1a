// SPDX-License-Identifier: Apache-2.0
#include "etude/base/edit_distance.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

using Names = std::vector<std::string_view>;

TEST(NearestNames, TheNearestComesFirst) {
  const Names names = {"tanh", "nn.relu", "selu", "exp", "gelu"};
  EXPECT_EQ(nearest_names("rel", names, false), (Names{"nn.relu", "selu", "gelu"}));
  EXPECT_EQ(nearest_names("tan", names, true), (Names{"tanh"}));
  EXPECT_EQ(nearest_names("convolution", names, true), Names{});
}

// The cost is a product of lengths, and names may come from files.
TEST(NearestNames, OnlyTheFirstHundredCharactersCount) {
  const std::string same(100, 'a'), longer = same + "bcd", name = same + std::string(1000000, 'e');
  EXPECT_EQ(nearest_names(name, Names{longer, same}, true), (Names{longer, same}));
}

}  // namespace
}  // namespace etude::internal
