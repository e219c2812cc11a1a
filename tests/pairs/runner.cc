// SPDX-License-Identifier: Apache-2.0
#include "tests/pairs/runner.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "etude/stage/internal/tracing_lock.h"

namespace pairs {
namespace {

constexpr std::size_t kBlock = 100;
constexpr unsigned kSeconds = 20;                  // for one program
constexpr std::chrono::seconds kTracePatience(1);  // for a thread that the program waits for

struct Block {
  std::size_t begin, end;
  std::FILE* file = nullptr;  // the output of the child
};

// A child writes "begin i", then lines "wrong KIND DETAIL", "thrown MODE TEXT" and "unjudged WHY".
[[noreturn]] void run_child(const std::vector<Program>& programs, const Block& block) {
  silence_warnings();
  for (std::size_t i = block.begin; i < block.end; ++i) {
    std::fprintf(block.file, "begin %zu\n", i);
    std::fflush(block.file);
    etude::internal::set_trace_patience(kTracePatience);
    alarm(kSeconds);
    const Outcome outcome = outcome_of(programs[i]);
    for (const Wrong& w : outcome.wrong)
      std::fprintf(block.file, "wrong %s %s\n", w.kind.c_str(), w.detail.c_str());
    for (const Thrown& t : outcome.thrown)
      std::fprintf(block.file, "thrown %s %s\n", t.mode.c_str(), t.text.c_str());
    if (!outcome.unjudged.empty())
      std::fprintf(block.file, "unjudged %s\n", outcome.unjudged.c_str());
  }
  std::fflush(block.file);
  _exit(0);
}

// Reads the output of a child. Returns the last program that it began.
std::size_t read_outcomes(const Block& block, std::vector<Outcome>& out) {
  std::rewind(block.file);
  std::size_t at = block.begin;
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, block.file) > 0) {
    std::string text(line);
    if (text.back() == '\n') text.pop_back();
    const std::size_t space = text.find(' ');
    const std::string word = text.substr(0, space), rest = text.substr(space + 1);
    if (word == "begin") {
      at = std::stoul(rest);
      continue;
    }
    if (word == "unjudged") out[at].unjudged = rest;
    const std::size_t next = rest.find(' ');
    const std::string name = rest.substr(0, next), more = rest.substr(next + 1);
    if (word == "thrown") out[at].thrown.push_back({name, more});
    if (word == "wrong") out[at].wrong.push_back({name, more});
  }
  std::free(line);
  std::fclose(block.file);
  return at;
}

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return "the process ended with " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "no end within " + std::to_string(kSeconds) + " s";
  return std::string("signal ") + strsignal(WTERMSIG(status));
}

}  // namespace

std::vector<Outcome> run_forked(const std::vector<Program>& programs, int jobs) {
  std::vector<Outcome> out(programs.size());
  std::deque<Block> waiting;
  for (std::size_t i = 0; i < programs.size(); i += kBlock) {
    waiting.push_back({i, std::min(i + kBlock, programs.size())});
  }
  std::map<pid_t, Block> running;
  while (!waiting.empty() || !running.empty()) {
    while (!waiting.empty() && running.size() < static_cast<std::size_t>(jobs)) {
      Block block = waiting.front();
      waiting.pop_front();
      block.file = std::tmpfile();
      if (block.file == nullptr) throw std::runtime_error("pairs: no temporary file can be made");
      std::fflush(nullptr);
      const pid_t child = fork();
      if (child < 0) throw std::runtime_error("pairs: no process can be started");
      if (child == 0) run_child(programs, block);
      running.emplace(child, block);
    }
    int status = 0;
    const pid_t ended = wait(&status);
    const auto found = running.find(ended);
    if (found == running.end()) continue;
    const Block block = found->second;
    running.erase(found);
    const std::size_t last = read_outcomes(block, out);
    if (status == 0) continue;
    out[last].wrong = {{"crash", how_it_ended(status)}};
    if (last + 1 < block.end) waiting.push_front({last + 1, block.end});
  }
  return out;
}

}  // namespace pairs
