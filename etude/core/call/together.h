// SPDX-License-Identifier: Apache-2.0
// Calls that happen together, or not at all. This is execute() (context.h) for several calls, in
// two steps: the first checks each call and takes all memory, the second runs the kernels and
// cannot fail. Optimisers use it, so that an update without memory changes nothing.
//
//   CallsTogether calls;
//   const std::size_t i = calls.add(op<"add">(), list.view(expiring), attrs);
//   calls.run();
//   x = calls.take(i, 0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/internal/inline_vector.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/core/call/values.h"
#include "etude/core/op/rules.h"

namespace etude::internal {

// threads: confined to the thread that made it.
class CallsTogether {
 public:
  CallsTogether() = default;
  CallsTogether(const CallsTogether&) = delete;
  CallsTogether& operator=(const CallsTogether&) = delete;

  void reserve(std::size_t calls) { calls_.reserve(calls); }

  // Adds a call and returns its number. Operands must not change before run(). An expiring operand
  // must stay where it is until take(), since a result may be written over it; later calls use this
  // result instead.
  //
  // The kernel waits for run() if no context is active, and if it can neither fail for any elements
  // nor enqueue work. Other calls run now, and write over no operand. A context records them.
  //
  // throws: as execute(). No operand has changed then.
  std::size_t add(const Op& op, Operands operands, const Attrs& attrs, CallSite where = {});
  // The number of results of a call.
  std::size_t results(std::size_t call) const noexcept { return calls_[call].results.size(); }
  // Result r of a call, as an operand of later calls. Its elements exist after run(). The reference
  // is valid until the next add().
  const Tensor& result(std::size_t call, std::size_t r) const noexcept;
  // Runs the kernels that wait, in the order of the calls. Allocates nothing.
  void run();
  // The result, once. Call it after run().
  Tensor take(std::size_t call, std::size_t r) noexcept;

 private:
  struct Result {
    Tensor made;                   // absent: the result is written over an operand
    const Tensor* over = nullptr;  // that operand
  };
  struct Call {
    const Op* op = nullptr;
    CallSite where = {};
    RefPtr<const Prepared> waits = {};  // the kernel; null: the call has run
    int64_t bytes = 0;                  // of operands and results
    InlineVector<const void*, 6> in = {};
    InlineVector<void*, 4> out = {};
    InlineVector<Result, 4> results = {};
  };
  // Returns false for a call that has to run now.
  static bool prepare_to_wait(const Op& op, Operands operands, const Attrs& attrs, Call& call);

  std::vector<Call> calls_;
};

// Checks the operands of a call as execute() does. Returns false if the call needs others: casts,
// dense copies, or copies on another device. throws: as execute(). Defined in context.cc.
bool fits_as_given(const Op& op, Operands operands, const Attrs& attrs, CallSite where);

}  // namespace etude::internal
