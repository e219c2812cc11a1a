// SPDX-License-Identifier: Apache-2.0
// Measures the time of a program. Records every op that runs on a thread, with the user's line, its
// time, the memory that it touches, and its allocations. The result is a table, or a trace that
// Perfetto opens.
//
//   ProfileScope scope;
//   step(model, batch);
//   fmt::print("{}", scope.profile().table());
//   scope.profile().write_trace("step.json");   // https://ui.perfetto.dev
//
// A whole program needs no change: `etude profile -- PROGRAM`, or ETUDE_PROFILE=FILE in its
// environment, writes the trace to FILE and the table to standard error when it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// All calls of one op at one line. If an op runs other ops, `seconds` includes their time and
// `own_seconds` does not. The rule of a derivative has the line of the call that it differentiates.
struct ProfileEntry {
  std::string_view op;
  CallSite where;
  int64_t calls = 0;
  double seconds = 0;
  double own_seconds = 0;
  int64_t bytes = 0;        // of operands and results
  int64_t allocations = 0;  // by the op itself
};

namespace internal {
class Recorder;
}

// The measurements so far. Not safe to read while the thread runs ops.
class Profile {
 public:
  // Longest own time first.
  std::vector<ProfileEntry> entries() const;
  // A text table of the first `rows` entries, and the sum over all entries.
  std::string table(std::size_t rows = 30) const;
  // Chrome's trace event format. The first million calls are kept; the table counts all of them.
  //
  // throws: kNotFound if the folder does not exist, kFailedPrecondition without access,
  //         kResourceExhausted on a full disk, kDataLoss for another failure. An old file is then
  //         unchanged.
  void write_trace(const std::string& path) const;

 private:
  friend class ProfileScope;
  friend class internal::Recorder;
  explicit Profile(std::vector<std::shared_ptr<internal::Recorder>> threads);

  std::vector<std::shared_ptr<internal::Recorder>> threads_;
};

// While alive, records the ops of this thread; of nested scopes only the innermost scope records.
// Each call then takes about 230 ns more. Without a scope, profiling is free: calls test a single
// word for contexts and for profiling.
// threads: confined to the thread that made it.
class ProfileScope {
 public:
  ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  ~ProfileScope();

  const Profile& profile() const { return profile_; }

 private:
  Profile profile_;
  internal::Recorder* outer_;
};

}  // namespace etude
