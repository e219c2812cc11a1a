// SPDX-License-Identifier: Apache-2.0
// Measures gradients of plain C++: numbers_bench [--json] [--rounds N] [--ms N] [PROGRAM...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/denormals.h"
#include "benchmarks/numbers/rows.h"

namespace etude::bench::numbers {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kCompiler =
#ifdef __clang__
    "clang " __clang_version__;
#else
    "g++ " __VERSION__;
#endif
constexpr bool kHasAdolc =
#ifdef ETUDE_HAVE_ADOLC
    true;
#else
    false;
#endif

struct Options {
  bool as_json = false;
  Clock clock;
  std::vector<std::string> programs;

  bool wants(const std::string& name) const {
    const auto is_meant = [&](const std::string& asked) {
      return asked == name || asked == name.substr(0, name.find('/'));
    };
    return programs.empty() || std::any_of(programs.begin(), programs.end(), is_meant);
  }
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (word == "--json") {
      options.as_json = true;
    } else if (word == "--rounds") {
      options.clock.rounds = std::max(1, number());
    } else if (word == "--ms") {
      options.clock.round_seconds = 1e-3 * std::max(1, number());
    } else if (word.starts_with("--")) {
      std::cerr << "usage: " << argv[0] << " [--json] [--rounds N] [--ms N] [PROGRAM...]\n";
      std::exit(word == "--help" ? 0 : 2);
    } else {
      options.programs.push_back(word);
    }
  }
  return options;
}

json json_of(const Outcome& row) {
  constexpr std::size_t kMostShown = 64;
  json out = {{"program", row.name}, {"compiler", kCompiler}};
  if (!row.fault.empty()) {
    out["fault"] = row.fault;
    return out;
  }
  const auto add = [&](const char* name, const Timing& t) {
    if (t.seconds == 0) return;
    out[name] = {{"seconds", t.seconds}, {"p10", t.p10}, {"p90", t.p90}};
  };
  if (row.aim != 0) out["aim"] = row.aim;
  if (row.elements != 0) out["elements"] = row.elements;
  add("primal", row.primal);
  add("gradient", row.gradient);
  add("hand", row.hand);
  add("adolc", row.adolc);
  add("adolc_again", row.adolc_again);
  out["off"] = {
      {"hand", row.off_hand}, {"adolc", row.off_adolc}, {"differences", row.off_differences}};
  out["value"] = row.value;
  out["count"] = row.derivatives.size();
  if (row.derivatives.size() <= kMostShown) {
    out["parameters"] = row.parameters;
    out["derivatives"] = row.derivatives;
  }
  return out;
}

// Three digits, or a dash where a way is missing.
std::string ratio(double a, double b) {
  if (a == 0 || b == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", a / b);
  return text;
}

void print_programs_head() {
  std::printf("%-16s %10s %9s %5s %9s %9s %9s %11s\n", "", "", "gradient", "", "hand", "ADOL-C",
              "ADOL-C", "kept tape");
  std::printf("%-16s %10s %9s %5s %9s %9s %9s %11s\n", "program", "primal us", "/ primal", "aim",
              "/ primal", "/ primal", "/ Etude", "/ Etude");
}
void print_loops_head() {
  std::printf("\n%-26s %12s %12s %12s %7s\n", "loop/elements", "primal ns", "gradient ns",
              "by hand ns", "/ hand");
}

void print(const Outcome& row) {
  if (!row.fault.empty()) {
    std::printf("%-16s not timed: %s\n", row.name.c_str(), row.fault.c_str());
    return;
  }
  if (row.elements != 0) {
    const double each = 1e9 / static_cast<double>(row.elements);
    std::printf("%-26s %12.3f %12.3f %12.3f %7s\n", row.name.c_str(), row.primal.seconds * each,
                row.gradient.seconds * each, row.hand.seconds * each,
                ratio(row.gradient.seconds, row.hand.seconds).c_str());
    return;
  }
  const double gradient = row.gradient.seconds, primal = row.primal.seconds;
  std::printf("%-16s %10.4g %9s %5g %9s %9s %9s %11s\n", row.name.c_str(), primal * 1e6,
              ratio(gradient, primal).c_str(), row.aim, ratio(row.hand.seconds, primal).c_str(),
              ratio(row.adolc.seconds, primal).c_str(), ratio(row.adolc.seconds, gradient).c_str(),
              ratio(row.adolc_again.seconds, gradient).c_str());
}

// Runs in a separate process, so that the costs of one program do not depend on another: on memory
// that is kept, or on the store of ADOL-C, which never shrinks and is walked at each gradient.
bool run_apart(const Entry& entry, const Options& options) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const Outcome row = measure(entry.make(entry.name), options.clock);
    if (options.as_json) {
      std::cout << json_of(row) << std::endl;
    } else {
      print(row);
      std::fflush(stdout);
    }
    _exit(row.fault.empty() ? 0 : 1);
  }
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  if (child < 0 || WIFSIGNALED(status)) std::cerr << entry.name << ": the process has crashed\n";
  return status == 0;
}

// A working directory that is removed after the run. ADOL-C writes files there when its buffers are
// full.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "numbers_bench_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    std::filesystem::current_path(folder_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    if (folder_.empty()) return;
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::filesystem::path before_ = std::filesystem::current_path(), folder_;
};

int run(const Options& options) {
  const ScratchFolder scratch;
  std::vector<Entry> entries;
  add_statistics(entries);
  add_networks(entries);
  add_dynamics(entries);
  add_structures(entries);
  add_loops(entries);
  if (!options.as_json) {
    std::printf("%s; medians of %d rounds of %g ms or more; one thread\n", kCompiler,
                options.clock.rounds, 1e3 * options.clock.round_seconds);
    if (!kHasAdolc) {
      std::printf("No ADOL-C: compile with -DETUDE_HAVE_ADOLC and link libadolc.\n");
    }
  }
  bool is_fine = true, in_programs = false, in_loops = false;
  for (const Entry& entry : entries) {
    if (!options.wants(entry.name)) continue;
    const bool is_loop = entry.name.find('/') != std::string::npos;
    if (!options.as_json && !std::exchange(is_loop ? in_loops : in_programs, true)) {
      is_loop ? print_loops_head() : print_programs_head();
    }
    is_fine = run_apart(entry, options) && is_fine;
  }
  return is_fine ? 0 : 1;
}

}  // namespace
}  // namespace etude::bench::numbers

int main(int argc, char** argv) {
  etude::bench::flush_denormals();
  return etude::bench::numbers::run(etude::bench::numbers::parse(argc, argv));
}
