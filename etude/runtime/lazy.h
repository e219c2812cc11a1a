// SPDX-License-Identifier: Apache-2.0
// Lazy execution: calls are recorded instead of run, and run together when something needs their
// elements. What is run is compiled once and found again the next time.
//
//   LazyScope lazy;                         // this thread records from here to the end of the
//   scope for (auto& batch : batches) {
//     const StepScope step;                 // a barrier at its end
//     auto [loss, grads] = value_with_gradient(loss_of(batch), model);
//     optimizer.update(model, grads);
//   }
//
// A tensor that is made here has shape, dtype and device at once, and elements when they are looked
// at: by item(), data(), printing, a host `if`, saving, or a call outside of lazy scopes. Results
// and errors are those of eager calls, bit for bit: what shapes and dtypes forbid is thrown by the
// call itself, what only elements show (an index outside) where they are looked at or at a barrier.
// A whole program runs lazily with ETUDE_MODE=lazy in its environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Of the whole process. Change them while nothing is recorded.
struct LazyOptions {
  bool op_by_op = false;            // runs what is cut call by call, for finding faults
  bool donate = true;               // memory of inputs that nobody else holds may become results
  bool families = true;             // segments that differ in sizes only share a program
  bool roll = true;                 // calls that repeat themselves many times become a loop
  bool background = true;           // programs are made behind the program; false: where it waits
  std::size_t max_nodes = 4096;     // a longer trace is cut by itself
  int64_t live_bytes = 0;           // and one that holds more bytes; 0: a quarter of the memory
  std::size_t max_programs = 1024;  // the least lately used one goes first
  std::size_t max_compiles = 64;    // by one line; beyond it segments run call by call; 0: no limit
  std::size_t cut_every = 0;        // for tests: a barrier after every so many calls; 0: never
  bool force_collisions = false;    // for tests: all programs have one hash
};
// ETUDE_LAZY=op_by_op in the environment sets the first one.
LazyOptions lazy_options();
// Replaces the options, and forgets all programs.
void set_lazy_options(const LazyOptions& options);

// While alive, the calls of this thread are recorded. One within another joins it; inside of a
// trace it is ignored. Its end runs what is pending and still needed; what fails then is told where
// it is looked at. Tapes, jvp and vmap lie over it, also those that are there already. confined to
// the thread that made it.
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
  // Whether to wait for devices that work beside the host. On a CPU all is done when it returns.
  bool wait = false;
};
// Runs all that is pending on this thread and still needed. Eagerly it does nothing.
// throws: the first failure of a call that it ran, with its op and its line.
void lazy_barrier(const LazyBarrierOptions& options = {}, CallSite where = CallSite::here());

// A barrier at its end; none where an exception passes. confined to the thread that made it.
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

// Whether calls of this thread are recorded now.
bool is_lazy() noexcept;
// Whether x waits for recorded calls.
bool is_pending(const Tensor& x) noexcept;
// How many recorded calls of this thread wait.
int64_t pending_nodes() noexcept;
// The recorded calls of this thread that wait, as the text of a graph (graph/print.h): its inputs
// are the values that they use from outside, its outputs what is held of their results.
std::string dump_pending();

}  // namespace etude
