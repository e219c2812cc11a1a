// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of saved functions.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/files/crc32c.h"
#include "etude/saved/saved.h"
#include "tests/temp_folder.h"

namespace etude::saved_functions_test {

class SavedFolder : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  const internal::TempFolder folder_;
};

using Files = std::map<std::string, std::string>;
inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_to(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}
// The files below a folder, by their paths in it.
inline Files files_of(const std::filesystem::path& folder) {
  Files out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    out[std::filesystem::relative(entry.path(), folder).string()] = content_of(entry.path());
  }
  return out;
}

// The manifest with this body and a valid checksum, and the body of a manifest.
inline std::string manifest_of(const std::string& body) {
  return fmt::format("{{\"crc32c\":\"{:08x}\",\"saved\":{}}}\n", internal::crc32c(0, body), body);
}
inline std::string body_of(const std::string& manifest) {
  const std::size_t begin = manifest.find("\"saved\":") + 8;
  return manifest.substr(begin, manifest.size() - begin - 2);
}

// Of one type, with equal elements.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && array_equal(a, b).item<bool>();
}

using OfOne = Tensor(const Tensor&);
using OfTwo = Tensor(const Tensor&, const Tensor&);

}  // namespace etude::saved_functions_test
