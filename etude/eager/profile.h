// SPDX-License-Identifier: Apache-2.0
// Profiles a program. Records each op on a thread: the user's line, the time, the bytes of operands
// and results, and the allocations. The result is a table, or a trace for Perfetto.
//
//   ProfileScope scope;
//   step(model, batch);
//   fmt::print("{}", scope.profile().table());
//   scope.profile().write_trace("step.json");   // https://ui.perfetto.dev
//
// To profile a whole program without a change, run `etude profile --trace FILE -- PROGRAM`, or set
// ETUDE_PROFILE=FILE in its environment. When the program ends, the trace is in FILE and the table
// is printed to standard error.
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
// `own_seconds` does not. Ops of a derivative have the line of the differentiated call.
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

// The measurements so far. Must not be read while the thread runs ops.
class Profile {
 public:
  // Longest own time first.
  std::vector<ProfileEntry> entries() const;
  // Returns a text table of the first `rows` entries, and the sum over all entries.
  std::string table(std::size_t rows = 30) const;
  // Writes a file in Chrome's trace event format. The trace has the first million calls of each
  // thread. The table counts all calls.
  //
  // throws: kNotFound if the folder does not exist, kFailedPrecondition without access,
  //         kResourceExhausted on a full disk, kDataLoss for another failure. After an
  //         error, an old file is unchanged.
  void write_trace(const std::string& path) const;

 private:
  friend class ProfileScope;
  friend class internal::Recorder;
  explicit Profile(std::vector<std::shared_ptr<internal::Recorder>> threads);

  std::vector<std::shared_ptr<internal::Recorder>> threads_;
};

// While alive, records the ops of this thread. If scopes nest, only the innermost scope records. A
// recorded call takes about 230 ns more. Without a scope, profiling costs nothing: each call tests
// one word to find contexts, and the same test finds a profiler.
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
