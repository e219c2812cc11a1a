// SPDX-License-Identifier: Apache-2.0
// The pair machine: README.md in this folder.
//
//   pairs_test [--programs N] [--from K] [--seed S] [--jobs J] [--with FEATURE] [--survey]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/pairs/features.h"
#include "tests/pairs/lists.h"
#include "tests/pairs/program.h"
#include "tests/pairs/runner.h"
#include "tests/pairs/shrink.h"

namespace pairs {
namespace {

struct Options {
  uint64_t programs = 3000, from = 0, seed = 1;
  int jobs = 1;
  std::string with;  // programs without this feature are passed by; empty: none is
  bool survey = false;
};

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (word == "--programs") {
      out.programs = number();
    } else if (word == "--from") {
      out.from = number();
    } else if (word == "--seed") {
      out.seed = number();
    } else if (word == "--jobs") {
      out.jobs = std::max(1, static_cast<int>(number()));
    } else if (word == "--with" && i + 1 < argc) {
      out.with = argv[++i];
    } else if (word == "--survey") {
      out.survey = true;
    } else if (word.rfind("--gtest", 0) != 0) {  // CTest passes them to every test
      std::printf("pairs_test: unknown option '%s'; see tests/pairs/README.md\n", word.c_str());
      std::exit(2);
    }
  }
  return out;
}

// Compares outcomes with the lists, and counts the rest.
class Report {
 public:
  explicit Report(Options options) : options_(options) {
    for (const Feature& f : features()) names_.emplace_back(f.name);
    known_ = read_list("tests/pairs/known.txt", true, names_);
    impossible_ = read_list("tests/pairs/impossible.txt", false, names_);
  }

  void add(uint64_t number, const Program& program, const Outcome& outcome) {
    std::vector<std::string> path;
    for (const Level& level : program.levels) path.push_back(names_[level.feature]);
    std::string title;
    for (const std::string& name : path) title += (title.empty() ? "" : " ") + name;
    ++programs_;
    if (!outcome.unjudged.empty()) ++unjudged_[outcome.unjudged];
    const bool cannot_be = is_impossible(path, outcome, title);
    for (const Wrong& wrong : outcome.wrong) {
      if (cannot_be && wrong.kind == "error") continue;
      ++counts_[title + " " + wrong.kind];
      const bool listed = is_known(path, wrong.kind);
      if (!listed) ++unlisted_;
      if (!listed || options_.survey) show(number, program, title, wrong, listed);
    }
  }

  // Whether the options select it.
  bool is_wanted(const Program& program) const {
    return options_.with.empty() ||
           std::any_of(program.levels.begin(), program.levels.end(),
                       [&](const Level& level) { return names_[level.feature] == options_.with; });
  }

  // Returns the status of the process.
  int finish() {
    std::printf("\nwrong, by features from the outside to the inside:\n");
    for (const auto& [what, count] : counts_) std::printf("  %4d %s\n", count, what.c_str());
    for (const auto& [why, count] : unjudged_) {
      std::printf("%d programs compared between modes alone: %s\n", count, why.c_str());
    }
    const bool whole = options_.from == 0 && options_.programs >= 3000 && options_.with.empty();
    int idle = 0;
    for (const Entry& entry : known_) {
      if (entry.uses > 0 || entry.rare || !whole) continue;
      ++idle;
      std::printf(
          "tests/pairs/known.txt:%d: '%s %s %s' does not go wrong any more; remove the line\n",
          entry.line, entry.outer.c_str(), entry.inner.c_str(), entry.kind.c_str());
    }
    std::printf("%d programs of %zu features; %d wrong and not listed; %d listed and not wrong\n",
                programs_, names_.size(), unlisted_, idle);
    return unlisted_ > 0 || idle > 0 ? 1 : 0;
  }

 private:
  // Whether impossible.txt lists all errors that a program threw. A single pair must throw them. In
  // a triple a mode may hold for a part only, as in a LazyScope.
  bool is_impossible(const std::vector<std::string>& path, const Outcome& outcome,
                     const std::string& title) {
    std::vector<const Entry*> held;
    for (const Entry& entry : impossible_) {
      if (entry.holds_for(path)) held.push_back(&entry);
    }
    for (const char* mode : kModes) {
      const auto is_of_mode = [&](const Entry* e) { return e->is_of(mode); };
      const auto threw = [&](const Thrown& t) { return t.mode == mode; };
      const auto must = std::find_if(held.begin(), held.end(), is_of_mode);
      if (path.size() > 2 || must == held.end()) continue;
      if (std::any_of(outcome.thrown.begin(), outcome.thrown.end(), threw)) continue;
      std::printf("%s: must throw '%s' in mode %s, as impossible.txt says\n", title.c_str(),
                  (*must)->text.c_str(), mode);
      ++unlisted_;
    }
    return std::all_of(outcome.thrown.begin(), outcome.thrown.end(), [&](const Thrown& t) {
      return std::any_of(held.begin(), held.end(), [&](const Entry* e) {
        return (path.size() > 2 || e->is_of(t.mode)) && t.text.find(e->text) != std::string::npos;
      });
    });
  }

  bool is_known(const std::vector<std::string>& path, const std::string& kind) {
    bool found = false;
    for (Entry& entry : known_) {
      if (entry.kind != kind || !entry.holds_for(path)) continue;
      ++entry.uses;
      found = true;
    }
    return found;
  }

  void show(uint64_t number, const Program& program, const std::string& title, const Wrong& wrong,
            bool listed) {
    if (!listed && !seen_.insert(title + " " + wrong.kind).second && !options_.survey) return;
    std::printf("%s: %s%s\n  %s\n  --from %llu --programs 1 --seed %llu\n", title.c_str(),
                wrong.kind.c_str(), listed ? " (listed)" : "", wrong.detail.c_str(),
                static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(options_.seed));
    const Program small = options_.survey ? shrunk(program, wrong.kind) : program;
    std::printf("  %s\n", to_text(small, names_).c_str());
    std::fflush(stdout);
  }

  Options options_;
  std::vector<std::string> names_;
  std::vector<Entry> known_, impossible_;
  std::map<std::string, int> counts_, unjudged_;
  std::set<std::string> seen_;
  int programs_ = 0, unlisted_ = 0;
};

int run(const Options& options) {
  Report report(options);
  std::vector<Program> programs;
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < options.programs; ++i) {
    Program made = make_program(options.seed, options.from + i, features().size());
    if (!report.is_wanted(made)) continue;
    programs.push_back(std::move(made));
    numbers.push_back(options.from + i);
  }
  const std::vector<Outcome> outcomes = run_forked(programs, options.jobs);
  for (std::size_t i = 0; i < programs.size(); ++i)
    report.add(numbers[i], programs[i], outcomes[i]);
  return report.finish();
}

}  // namespace
}  // namespace pairs

int main(int argc, char** argv) {
  try {
    return pairs::run(pairs::parse(argc, argv));
  } catch (const std::exception& e) {
    std::printf("pairs_test: %s\n", e.what());
    return 2;
  }
}
