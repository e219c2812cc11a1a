// SPDX-License-Identifier: Apache-2.0
// Records the tensor sizes that host code reads during a trace. Decisions of host code by these
// sizes are fixed in the graph, so the graph is valid for these sizes only. Written by Tensor and
// Shape, read by traces.
//
// A read from a line of the user's files counts (CallSite::here() distinguishes these from the
// library's files), for any tensor, unless a rule of an op is running. Tensor::shape() then returns
// a watched shape, whose copies are watched too: x.shape()[1] notes the size of axis 1 only.
// Tensor::size(), nbytes() and type() note all sizes; rank() and dtype() note none. Reads by
// library code are not noted: ops and layers make the same calls for all sizes, or calls of another
// structure, which a comparison of graphs detects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

struct SizeRead {
  int64_t size;
  CallSite where;  // the line that read the shape
};

// While alive, or until leave(), notes the reads of this thread. Enclosing scopes note nothing
// meanwhile.
// threads: confined to the thread that made it.
class SizeReads {
 public:
  SizeReads() noexcept;
  SizeReads(const SizeReads&) = delete;
  SizeReads& operator=(const SizeReads&) = delete;
  ~SizeReads() { leave(); }
  void leave() noexcept;

  // The reads in order. Reads beyond kMost are dropped, and is_full() returns true.
  static constexpr std::size_t kMost = 4096;
  const std::vector<SizeRead>& list() const noexcept { return list_; }
  bool is_full() const noexcept { return list_.size() >= kMost; }
  // Adds the reads of a graph that the program calls.
  void add(const std::vector<SizeRead>& reads);

 private:
  friend class SizeReadsPause;
  friend bool start_watching(CallSite where) noexcept;
  friend void note_size(int64_t size) noexcept;

  std::vector<SizeRead> list_;
  CallSite where_;
  SizeReads* outer_;
  bool is_open_ = true;
};

// While alive, no reads are noted.
// threads: confined to the thread that made it.
class SizeReadsPause {
 public:
  SizeReadsPause() noexcept;
  SizeReadsPause(const SizeReadsPause&) = delete;
  SizeReadsPause& operator=(const SizeReadsPause&) = delete;
  ~SizeReadsPause();

 private:
  SizeReads* saved_;
};

#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern thread_local constinit SizeReads* size_reads;

[[gnu::cold]] bool start_watching(CallSite where) noexcept;
// Whether reads of sizes from this line are noted. cost: a read of a thread-local variable.
inline bool watches_sizes(CallSite where) noexcept {
  return size_reads != nullptr && start_watching(where);
}

}  // namespace internal
}  // namespace etude
