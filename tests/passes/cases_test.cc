// SPDX-License-Identifier: Apache-2.0
// Passes on graphs in text files: cases/NAME.txt holds results of pass NAME, and cases/rules.txt
// the result of each rule on its sample. After an intended change write them again, and read them
// in the commit:
//
//   ETUDE_UPDATE=1 build/dev/bin/passes_test
//
// A file is a list of cases: a title, a graph, a line of dashes, the graph after the pass.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "etude/passes/pipeline.h"
#include "tests/passes/random_values.h"
#include "tests/passes/rules.h"
#include "tests/same_numbers.h"

namespace etude::tests {
namespace {

struct Case {
  std::string title, before, after;
};

std::string path_of(std::string_view name) {
  return fmt::format("{}cases/{}.txt", ETUDE_CASES, name);
}

std::vector<Case> read_cases(std::string_view name) {
  std::ifstream file(path_of(name));
  std::vector<Case> out;
  std::string* into = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      out.push_back({line.substr(4), "", ""});
      into = &out.back().before;
    } else if (line == "---") {
      into = &out.back().after;
    } else if (into != nullptr) {
      *into += line + "\n";
    }
  }
  return out;
}

std::string file_text(const std::vector<Case>& cases) {
  std::string out;
  for (const Case& c : cases) {
    out += fmt::format("=== {}\n{}---\n{}", c.title, c.before, c.after);
  }
  return out;
}

// Whether the file holds these cases; in an update it does from here on.
void expect_file(std::string_view name, const std::vector<Case>& cases) {
  const std::string want = file_text(cases);
  if (std::getenv("ETUDE_UPDATE") != nullptr) std::ofstream(path_of(name)) << want;
  std::stringstream is;
  is << std::ifstream(path_of(name)).rdbuf();
  EXPECT_EQ(is.str(), want) << path_of(name) << " is not what the passes do";
}

// Both graphs have the same bits, and the second one can run.
void expect_same_values(const Graph& before, const Graph& after) {
  verify(after);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const std::vector<Tensor> inputs = random_inputs(before, seed);
    const std::vector<Tensor> want = interpret(before, inputs), got = interpret(after, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_numbers(got[i], want[i])) << i;
  }
}

class Passes : public ::testing::TestWithParam<Pass> {};

TEST_P(Passes, MakeOfGraphsWhatTheFilesSay) {
  const Pass& pass = GetParam();
  std::vector<Case> cases = read_cases(pass.name);
  bool has_effect = false;
  for (Case& c : cases) {
    SCOPED_TRACE(c.title);
    const GraphRef before = parse_graph(c.before);
    const GraphRef after = pass.run(*before);
    expect_same_values(*before, *after);
    EXPECT_TRUE(pass.run(*after)->same(*after)) << "it is not done at once";
    has_effect = has_effect || !after->same(*before);
    c.after = to_text(*after);
  }
  EXPECT_TRUE(has_effect) << pass.name << " has no case in which it changes anything";
  expect_file(pass.name, cases);
}

INSTANTIATE_TEST_SUITE_P(Table, Passes, ::testing::ValuesIn(passes().begin(), passes().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Cases, TheManualNamesEachPass) {
  std::stringstream page;
  page << std::ifstream(fmt::format("{}../../docs/graphs.md", ETUDE_CASES)).rdbuf();
  for (const Pass& pass : passes()) {
    const std::string row = fmt::format("| `{}` | {} |\n", pass.name, pass.doc);
    EXPECT_NE(page.str().find(row), std::string::npos) << row;
  }
}

TEST(Cases, OfRules) {
  const auto is_it = [](const Pass& pass) { return pass.name == "rewrite_calls"; };
  const Pass& pass = *std::ranges::find_if(passes(), is_it);
  std::vector<Case> cases;
  for (const Rule& rule : all_rules()) {
    const GraphRef before = parse_graph(sample_of(rule, dtypes_of(rule).back()));
    cases.push_back({std::string(rule.def->name), to_text(*before), to_text(*pass.run(*before))});
  }
  expect_file("rules", cases);
}

}  // namespace
}  // namespace etude::tests
