// SPDX-License-Identifier: Apache-2.0
// Event files of TensorBoard as text.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace etude::tests {

// The content of the only file of a folder, by an independent reader.
inline std::string events_in(const std::filesystem::path& folder) {
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) file = entry.path();
  const std::string command = "python3 tests/training/read_events.py '" + file + "' 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(pipe), 0) << text;
  return text;
}

}  // namespace etude::tests
