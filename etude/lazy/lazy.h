// SPDX-License-Identifier: Apache-2.0
// Lazy execution: calls are recorded first, and run together when the elements of a result are
// needed. A recorded program is compiled once. Later runs find the program in a cache.
//
//   LazyScope lazy;                // this thread records from here to the end of the scope
//   for (auto& batch : batches) {
//     const StepScope step;        // a barrier at its end
//     auto [loss, grads] = value_with_gradient(loss_of(batch), model);
//     optimizer.update(model, grads);
//   }
//
// The shape, dtype and device of a tensor that is made in a scope are known at once. Its elements
// are computed when they are observed: by item(), data(), printing, a host `if`, saving, or a call
// outside of lazy scopes. Results and errors equal eager execution, bit for bit. The call itself
// throws errors of shapes and dtypes. The observation or a barrier throws errors of elements, such
// as an index out of range. A whole program runs lazily with ETUDE_MODE=lazy in its environment.
//
// A recorded call is pending until it runs. The pending calls of a thread are its trace. A cut
// takes calls out of the trace and runs them as one segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Options of the whole process. Change them only while nothing is recorded.
struct LazyOptions {
  bool op_by_op = false;            // runs segments call by call, for debugging
  bool donate = true;               // results may reuse the memory of inputs without another owner
  bool symbolic_shapes = true;      // segments that differ only in sizes share a program
  bool roll = true;                 // calls that repeat many times become a loop
  bool background = true;           // compiles in the background; false: before the segment runs
  std::size_t max_nodes = 4096;     // a trace of this many calls is cut
  int64_t live_bytes = 0;           // a trace with more bytes is cut; 0: a quarter of host memory
  std::size_t max_programs = 1024;  // cached programs; the least recently used are dropped
  std::size_t max_compiles = 64;    // per line; then new segments run call by call; 0: no limit
  std::size_t cut_every = 0;        // for tests: a cut after this many calls; 0: never
  bool force_collisions = false;    // for tests: all programs have the same hash
};
// Returns the options. ETUDE_LAZY=op_by_op in the environment sets `op_by_op`.
LazyOptions lazy_options();
// Replaces the options and drops all cached programs.
void set_lazy_options(const LazyOptions& options);

// While alive, records the calls of this thread. A nested scope joins the outer scope. In a staged
// function that is being traced, a scope has no effect. The end of the scope runs all pending calls
// whose results are still needed. If such a call fails, the error is thrown where its result is
// observed. In the context stack, tapes, jvp and vmap are above the scope, even if made earlier.
//
// threads: confined to the thread that made it.
class LazyScope {
 public:
  LazyScope();
  LazyScope(const LazyScope&) = delete;
  LazyScope& operator=(const LazyScope&) = delete;
  ~LazyScope();

 private:
  bool is_outermost_;
};

struct LazyBarrierOptions {
  // Whether to wait for devices other than the host. Ignored at present. On a CPU, all work is
  // always done when the barrier returns.
  bool wait = false;
};
// Runs all pending calls of this thread whose results are still needed. Does nothing in eager mode.
//
// throws: the first error of these calls, with the op and the line of the call.
void lazy_barrier(const LazyBarrierOptions& options = {}, CallSite where = CallSite::here());

// The end of this scope is a barrier, unless an exception leaves the scope.
//
// threads: confined to the thread that made it.
class StepScope {
 public:
  explicit StepScope(CallSite where = CallSite::here())
      : where_(where), exceptions_(std::uncaught_exceptions()) {}
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  ~StepScope() noexcept(false);

 private:
  CallSite where_;
  int exceptions_;
};

// Whether calls of this thread are being recorded.
bool is_lazy() noexcept;
// Whether x is the result of a pending call.
bool is_pending(const Tensor& x) noexcept;
// Returns the number of pending calls of this thread.
int64_t pending_nodes() noexcept;
// Returns the pending calls of this thread as the text of a graph (graph/text/print.h). The inputs
// are the outside values that the calls use. The outputs are the results that still have an owner.
std::string dump_pending();

}  // namespace etude
