// SPDX-License-Identifier: Apache-2.0
// located() for ops: what every way into an op does with an error that comes out of it.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "etude/core/call_scope.h"
#include "etude/core/mode.h"
#include "etude/core/op.h"

namespace etude::internal {

// throws: kInvalidArgument, naming the operands of the record, if it takes another number of them.
void require_count(const Op& op, std::size_t given);

// What errors call operand i: "operand 'x'", or "element 3 of 'xs'" of a list.
std::string operand_text(const Op& op, std::size_t i);
// The same in an expression: "x", "xs[3]".
std::string operand_expression(const Op& op, std::size_t i);

// An error of a call that a rule made: what failed in which op, for the layer that runs the rule to
// tell in terms of the operands that its caller gave.
class StepError final : public Error {
 public:
  StepError(ErrorCode code, const Op& step, std::string fact) : StepError(code, step, fact, fact) {}
  // The same with another text.
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

// Gives an error of a call of `op` the op's name and the user's line. Inside a rule the op that the
// rule belongs to gets its name there, so that here `op` is but a step: throws a StepError.
void place_error(Error& error, const Op& op, CallSite where);

// Runs `f` and places its errors. Inlined, since it stands on the path of every call; it opens no
// scope, since what an op runs has the line of its ContextScope.
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
