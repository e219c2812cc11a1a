// SPDX-License-Identifier: Apache-2.0
// located() for ops: error handling that all ways of calling an op share.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "etude/core/call/call_scope.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/op.h"

namespace etude::internal {

// The number of operands of a call that lists `given` of them. Operands that are left out at the
// end count as absent, so that kernels and rules find an entry for each operand of the record. All
// lists of operands are filled up to this number: of calls in execute(), of nodes in GraphBuilder.
// throws: kInvalidArgument, naming the operands of the record, if their number is wrong.
std::size_t full_count(const Op& op, std::size_t given);

// The name of operand i in errors: "operand 'x'", or for a list "element 3 of 'xs'".
std::string operand_text(const Op& op, std::size_t i);
// The name of operand i in an expression: "x", "xs[3]".
std::string operand_expression(const Op& op, std::size_t i);

// An error of a call inside a rule. It holds the failed op and the fault. The layer that runs the
// rule rephrases it in terms of its caller's operands.
class StepError final : public Error {
 public:
  StepError(ErrorCode code, const Op& step, std::string fact) : StepError(code, step, fact, fact) {}
  // The same error with another text.
  StepError(const StepError& error, std::string text)
      : StepError(error.code(), *error.step_, error.fact_, std::move(text)) {}

  const Op& step() const noexcept { return *step_; }
  const std::string& fact() const noexcept { return fact_; }

 private:
  StepError(ErrorCode code, const Op& step, std::string fact, std::string text)
      : Error(code, std::move(text)), step_(&step), fact_(std::move(fact)) {}

  const Op* step_;
  std::string fact_;
};

// Adds the op's name and the user's line to an error of a call of `op`. Inside a rule, the user's
// op gets its name later and `op` is only a step: throws a StepError.
void place_error(Error& error, const Op& op, CallSite where);

// Runs `f` and places its errors. Inlined, since every call passes through it. Opens no scope:
// calls inside an op have the line of its ContextScope.
template <class F>
[[gnu::always_inline]] inline auto located(const Op& op, CallSite where, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    place_error(error, op, where);
    throw;
  } catch (const std::bad_alloc&) {
    throw_no_memory(op.name(), where);
  }
}

}  // namespace etude::internal
