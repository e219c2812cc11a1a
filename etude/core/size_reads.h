// SPDX-License-Identifier: Apache-2.0
// Which sizes of tensors host code looks at while a function is traced: what it decides by them is
// fixed in the graph, so that the graph is good for these sizes alone. Written by Tensor and Shape,
// read by traces.
//
// The rule: a look from a line of the user's files counts (CallSite::here() tells them from those
// of the library), whatever the tensor, unless a rule of an op is running. Tensor::shape() then
// gives a watched shape, whose copies are watched too: x.shape()[1] notes the size of axis 1 and no
// other. Tensor::size(), nbytes() and type() note all sizes; rank() and dtype() none. What library
// code looks at is not noted: ops and layers make the same calls at all sizes, or calls of another
// structure, which a comparison of graphs sees.
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
  CallSite where;  // the line that asked for the shape
};

// While alive, or until leave(), notes what this thread looks at; those around it note nothing.
// confined to the thread that made it.
class SizeReads {
 public:
  SizeReads() noexcept;
  SizeReads(const SizeReads&) = delete;
  SizeReads& operator=(const SizeReads&) = delete;
  ~SizeReads() { leave(); }
  void leave() noexcept;

  // In order. Beyond kMost they are left out, and is_full() says so.
  static constexpr std::size_t kMost = 4096;
  const std::vector<SizeRead>& list() const noexcept { return list_; }
  bool is_full() const noexcept { return list_.size() >= kMost; }
  // Those of a graph that the program calls.
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

// While alive, nothing is noted. confined to the thread that made it.
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
// Whether sizes that this line gets are to be noted. cost: a read of a thread-local variable.
inline bool watches_sizes(CallSite where) noexcept {
  return size_reads != nullptr && start_watching(where);
}

}  // namespace internal
}  // namespace etude
