// SPDX-License-Identifier: Apache-2.0
// Checked lists of the calls that the matrix leaves out, with reasons. refusals.txt has the calls
// that throw, so that a kernel that throws by mistake is not in the list. symbolic_refusals.txt has
// the calls whose graph no symbolic graph makes.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

// A list: a file with a line for each thing that is left out, by op.
struct List {
  const char* path;
  std::string_view head;
  std::vector<std::string> (*found)(const Op&);
  const char* more;  // the fault of a missing line
};

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

// The error of the call, without the op and the line; empty if it runs.
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

std::vector<std::string> found_refusals(const Op& op) {
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

// One line for all dtypes that have it.
std::vector<std::string> found_symbolic(const Op& op) {
  std::set<std::string> lines;
  for (const DType dtype : dtypes_of(op)) {
    for (const Call& call : calls_of(op, dtype)) {
      if (!refusal(call).empty()) continue;
      for (std::string why : count_families(call).reasons) {
        why.resize(std::min(why.size(), why.find("  # ")));  // the line that made the call
        const std::string_view own = name(dtype);
        for (std::size_t at = why.find(own); at != std::string::npos; at = why.find(own, at)) {
          why.replace(at, own.size(), "DTYPE");
        }
        lines.insert(fmt::format("{}: {}", op.name(), why));
      }
    }
  }
  return {lines.begin(), lines.end()};
}

constexpr List kRefusals = {
    "tests/ops/refusals.txt",
    "# Calls of the op matrix that an op refuses: OP DTYPE: SAMPLES: WHY. A call that throws and\n"
    "# is not here fails, and so does a line that has become untrue. A new line needs its reason\n"
    "# in the commit. Written by: ETUDE_UPDATE=1 build/dev/bin/matrix_test "
    "--gtest_filter=*Refusals*\n",
    found_refusals, "throws"};
constexpr List kFamilies = {
    "tests/ops/symbolic_refusals.txt",
    "# Calls of the op matrix of which no symbolic graph gives the graph at other sizes: OP: WHY.\n"
    "# What is refused and is not here fails, and so does a line that has become untrue. A new\n"
    "# line needs its reason in the commit. Written with refusals.txt.\n",
    found_symbolic, "has no symbolic graph"};

// The lines of an op in the checked list.
std::vector<std::string> listed_lines(const List& list, const Op& op) {
  std::vector<std::string> out;
  std::ifstream file(list.path);
  EXPECT_TRUE(file.good()) << list.path << " cannot be read; run the test in the root";
  for (std::string line; std::getline(file, line);) {
    if (line.substr(0, line.find_first_of(" :")) == op.name()) out.push_back(line);
  }
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

void check(const List& list, const Op& op) {
  const std::vector<std::string> found = list.found(op), listed = listed_lines(list, op);
  const std::string more = missing(found, listed), less = missing(listed, found);
  expect(more.empty(), std::string(op.name()),
         [&] { return fmt::format("{} where {} does not say so:{}", list.more, list.path, more); });
  expect(less.empty(), std::string(op.name()),
         [&] { return fmt::format("what {} says is no longer so:{}", list.path, less); });
}

}  // namespace

void check_refusals(const Op& op) { check(kRefusals, op); }
void check_symbolic_shapes(const Op& op) { check(kFamilies, op); }

void write_lists() {
  for (const List& list : {kRefusals, kFamilies}) {
    std::ofstream file(list.path);
    file << list.head;
    for (const Op* op : Registry::global().ops()) {
      for (const std::string& line : list.found(*op)) file << line << '\n';
    }
  }
}

}  // namespace etude::matrix
