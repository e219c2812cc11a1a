// SPDX-License-Identifier: Apache-2.0
// Lazy execution: calls are recorded instead of run, and run together when a program needs their
// elements. A recorded program is compiled once; later runs find it in a cache.
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
// throws errors of shapes and dtypes; errors of elements (an index out of range) are thrown at the
// observation or at a barrier. A whole program runs lazily with ETUDE_MODE=lazy in its environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Options of the whole process. Change them while nothing is recorded.
struct LazyOptions {
  bool op_by_op = false;            // runs segments call by call, for debugging
  bool donate = true;               // memory of inputs without another owner may be reused
  bool symbolic_shapes = true;      // segments that differ only in sizes share a program
  bool roll = true;                 // calls that repeat many times become a loop
  bool background = true;           // programs are compiled in the background; false: inline
  std::size_t max_nodes = 4096;     // a longer trace is cut
  int64_t live_bytes = 0;           // a trace of more bytes is cut; 0: a quarter of the memory
  std::size_t max_programs = 1024;  // beyond it the least recently used is dropped
  std::size_t max_compiles = 64;    // per line; beyond it segments run call by call; 0: no limit
  std::size_t cut_every = 0;        // for tests: a barrier after every so many calls; 0: never
  bool force_collisions = false;    // for tests: all programs have one hash
};
// ETUDE_LAZY=op_by_op in the environment sets `op_by_op`.
LazyOptions lazy_options();
// Replaces the options, and forgets all programs.
void set_lazy_options(const LazyOptions& options);

// While alive, the calls of this thread are recorded. A nested scope joins the outer one; inside a
// trace a scope is ignored. The end of the scope runs all pending calls whose results are still
// needed. If such a call fails, the error is thrown where its result is observed. Tapes, jvp and
// vmap are above the scope in the context stack, even if they were made before it.
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
  // Whether to wait for devices other than the host. On a CPU all work is always done when the
  // barrier returns.
  bool wait = false;
};
// Runs all pending calls of this thread whose results are still needed. Does nothing in eager mode.
// throws: the first failure of a call that it ran, with its op and its line.
void lazy_barrier(const LazyBarrierOptions& options = {}, CallSite where = CallSite::here());

// The end of this scope is a barrier, unless an exception leaves it.
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
// Whether x waits for recorded calls.
bool is_pending(const Tensor& x) noexcept;
// The number of pending calls of this thread.
int64_t pending_nodes() noexcept;
// The pending calls of this thread, as the text of a graph (graph/text/print.h). Its inputs are the
// outside values that they use; its outputs are the results that are still referred to.
std::string dump_pending();

}  // namespace etude
