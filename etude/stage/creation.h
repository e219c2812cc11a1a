// SPDX-License-Identifier: Apache-2.0
// Variables that staged functions make, which is possible in the first call only. An initial value
// that depends only on numbers and on tensors from outside is computed at once. The call is then
// traced a second time, and this trace makes the graph. An initial value that depends on an
// argument or on a random key does not exist while the function is traced. Such a call runs the
// host function itself, and the next call is traced. Used by function_core.cc.
#pragma once

#include <exception>
#include <span>
#include <string>

#include "etude/core/call/call_scope.h"
#include "etude/stage/function_core.h"
#include "etude/stage/trace.h"

namespace etude::internal {

// Thrown in place of the exception that ended a trace, if its cause is a Variable that could not be
// made.
struct NoGraph {
  TraceContext::Unmade variable;
  std::exception_ptr error;
};

// Runs the host function in its trace and returns the result. throws: the errors of the function,
// or NoGraph.
TraceResult run_traced(const TraceContext& context, const HostRun& run,
                       std::span<const Tensor> inputs, std::span<const Variable> variables);

// Checks that Variables are made only in the first of the two traces of a call.
// throws: kFailedPrecondition otherwise, with the name of such a Variable.
void check_created(const TraceContext& context, const std::string& function, bool may_create);

// Runs `f` on behalf of a staged function that was called at `where`.
template <class F>
auto located_in(const std::string& function, CallSite where, F&& f) {
  return located("", where, [&] {
    try {
      return f();
    } catch (Error& error) {
      error.name_caller(function, user_line(where));
      throw;
    }
  });
}

}  // namespace etude::internal
