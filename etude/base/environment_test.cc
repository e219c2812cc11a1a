// SPDX-License-Identifier: Apache-2.0
#include "etude/base/environment.h"

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/warning.h"

namespace etude::internal {
namespace {

constexpr std::array<std::string_view, 2> kWords{"fast", "slow"};
constexpr const char* kName = "ETUDE_TEST_CHOICE";

class EnvironmentChoice : public ::testing::Test {
 protected:
  EnvironmentChoice()
      : before_(set_warning_handler([this](std::string_view m) { said.emplace_back(m); })) {
    forget_warnings();
  }
  ~EnvironmentChoice() override {
    set_warning_handler(before_);
    unsetenv(kName);
  }

  std::vector<std::string> said;

 private:
  WarningHandler before_;
};

TEST_F(EnvironmentChoice, IsTheIndexOfTheWord) {
  EXPECT_EQ(environment_choice(kName, kWords), -1);
  setenv(kName, "", 1);
  EXPECT_EQ(environment_choice(kName, kWords), -1);
  setenv(kName, "fast", 1);
  EXPECT_EQ(environment_choice(kName, kWords), 0);
  setenv(kName, "slow", 1);
  EXPECT_EQ(environment_choice(kName, kWords), 1);
  EXPECT_TRUE(said.empty());
}

TEST_F(EnvironmentChoice, TellsOnceOfAnotherWord) {
  setenv(kName, "Fast", 1);
  EXPECT_EQ(environment_choice(kName, kWords), -1);
  EXPECT_EQ(environment_choice(kName, kWords), -1);
  EXPECT_EQ(said, std::vector<std::string>{
                      "the environment variable ETUDE_TEST_CHOICE is 'Fast', which is ignored. Set "
                      "it to fast or slow"});
}

}  // namespace
}  // namespace etude::internal
