// SPDX-License-Identifier: Apache-2.0
// Calls that the matrix leaves out since they throw. Which those are, and why, stands in
// refusals.txt: a kernel that throws where it should compute is not in the list.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

constexpr const char* kPath = "tests/ops/refusals.txt";
constexpr std::string_view kHead =
    "# Calls of the op matrix that an op refuses: OP DTYPE: SAMPLES: WHY. A call that throws and\n"
    "# is not here fails, and so does a line that has become untrue. A new line needs its reason\n"
    "# in the commit. Written by: ETUDE_UPDATE=1 build/dev/bin/matrix_test "
    "--gtest_filter=*Refusals*\n";

// "0-2 5" for 0, 1, 2, 5.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : " ", numbers[i]);
    if (end > i + 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

// What the call throws, without the op and the line; empty if it runs.
std::string refusal(const Call& call) {
  try {
    run(call);
    return {};
  } catch (const std::exception& error) {
    std::string text = error.what();
    text.resize(std::min(text.size(), text.find("\n  at ")));
    std::replace(text.begin(), text.end(), '\n', ' ');
    const std::string prefix = fmt::format("{}: ", call.op->name());
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }
}

std::vector<std::string> found_lines(const Op& op) {
  std::vector<std::string> lines;
  for (const DType dtype : dtypes_of(op)) {
    std::map<std::string, std::vector<int>> samples;
    for (const Call& call : calls_of(op, dtype)) {
      if (const std::string why = refusal(call); !why.empty()) samples[why].push_back(call.sample);
    }
    for (const auto& [why, numbers] : samples) {
      lines.push_back(fmt::format("{} {}: {}: {}", op.name(), name(dtype), ranges(numbers), why));
    }
  }
  return lines;
}

// The lines of an op in the checked list.
std::vector<std::string> listed_lines(const Op& op) {
  static const std::multimap<std::string, std::string> all = [] {
    std::multimap<std::string, std::string> out;
    std::ifstream file(kPath);
    EXPECT_TRUE(file.good()) << kPath << " cannot be read; run the test in the root";
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with('#')) out.emplace(line.substr(0, line.find(' ')), line);
    }
    return out;
  }();
  const auto [begin, end] = all.equal_range(std::string(op.name()));
  std::vector<std::string> out;
  for (auto i = begin; i != end; ++i) out.push_back(i->second);
  return out;
}

// Lines of `a` that are not in `b`.
std::string missing(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::string text;
  for (const std::string& line : a) {
    if (std::find(b.begin(), b.end(), line) == b.end()) text += "\n  " + line;
  }
  return text;
}

}  // namespace

void check_refusals(const Op& op) {
  const std::vector<std::string> found = found_lines(op), listed = listed_lines(op);
  const std::string more = missing(found, listed), less = missing(listed, found);
  expect(more.empty(), std::string(op.name()),
         [&] { return fmt::format("throws where {} does not say so:{}", kPath, more); });
  expect(less.empty(), std::string(op.name()),
         [&] { return fmt::format("what {} says is no longer so:{}", kPath, less); });
}

void write_refusals() {
  std::ofstream file(kPath);
  file << kHead;
  for (const Op* op : Registry::global().ops()) {
    for (const std::string& line : found_lines(*op)) file << line << '\n';
  }
}

}  // namespace etude::matrix
