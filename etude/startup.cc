// SPDX-License-Identifier: Apache-2.0
// The things that upper folders plug into lower ones, all in one place. A lower folder that needs
// something from above declares a function, and this file defines it. So the linker connects the
// two: nothing is installed while a program starts or while threads open the library, calls before
// main() find all of it, and no call checks for it. No file includes this one.
//
// The functions of the call path are connected in the same way, but are defined where their work
// is: the memory of tensors (core/buffer.h) in device/cpu/allocator.cc, the eager context and its
// fast path (core/context/context.h, core/internal/call.h) in eager/eager.cc, set_index()
// (core/index.h) in ops/index/index_expression.cc, and call_host() (stage/internal/host_call.h) in
// ops/graph/host_calls.cc.
#include <utility>

#include "etude/codegen/serve.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/late_calls.h"
#include "etude/core/op/registry.h"
#include "etude/core/op/tiered_code.h"
#include "etude/eager/dispatch.h"
#include "etude/eager/profiler.h"
#include "etude/kernels/cpu/call_estimates.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"
#include "etude/lazy/trace.h"
#include "etude/ops/families.h"
#include "etude/plan/background.h"
#include "etude/plan/call_time.h"
#include "etude/plan/cluster_code.h"
#include "etude/stage/internal/tracing_lock.h"
#include "etude/variables/enclosing_trace.h"

namespace etude {

// ops -> core: the registry, when it is first used, has the records of all families.
void register_all_ops(Registry& registry) {
#define ETUDE_OP_FAMILY(name) ops::define_##name(registry);
#include "etude/ops/families.inc"
#undef ETUDE_OP_FAMILY
}

namespace internal {

// lazy -> eager: the first call of a thread is where the library meets it. From here on it follows
// ETUDE_PROFILE and ETUDE_MODE, which are for all threads of the program.
void DispatchEntry::table_was_made() {
  profile_this_thread();
  lazy_this_thread();
}

// eager -> core: the profiler measures calls that run later, in the queue of a device.
RefPtr<const LateTimer> timer_of_call() { return timer_of_profiled_call(); }

// variables -> core: inside traces values of cpu:0 follow values of other devices.
bool is_inside_trace() noexcept { return EnclosingTrace::innermost() != nullptr; }

// kernels -> plan: kernels alone know their prepared parameters, so they describe their calls to
// the search for clusters.
bool describe_call(const Prepared& call, std::span<const Type* const> operands, SmallCall& out) {
  return kernels::cpu::describe_small_call(call, operands, out);
}

// kernels -> plan: so do they for estimates of their time.
bool estimate_call(const Prepared& call, CallTime& time) {
  return kernels::cpu::estimate_call(call, time);
}

// codegen -> plan and kernels: machine code of clusters and of fused element-wise calls, which run
// without it at first.
void make_code_in_background(const TieredCode& code, Tier tier) noexcept {
  codegen::make_in_background(code, tier);
}
void make_code_now(const TieredCode& code, Tier tier) noexcept { codegen::make_now(code, tier); }

// codegen -> plan: background work goes to the thread that makes code, which is ready for a fork
// and for the end of the process.
bool run_in_background(std::function<void()> work) noexcept {
  return codegen::work_in_background(std::move(work));
}

// codegen -> stage: at fork() the handler for traces runs first, then the handlers for background
// work and code.
void prepare_background_for_forks() { codegen::prepare_for_forks(); }

}  // namespace internal
}  // namespace etude
