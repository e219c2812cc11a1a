// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/creation.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/stage/function_traces.h"

namespace etude::internal {
namespace {

[[noreturn]] void refuse_again(const std::string& made, const std::string& function) {
  ETUDE_THROW(kFailedPrecondition,
              "{} in function '{}' is made whenever the function is traced. Make it once: outside, "
              "or under `if (!v)` with v outside, in the first call",
              made, function);
}

}  // namespace

void check_created(const TraceContext& context, const std::string& function, bool may_create) {
  for (const TraceContext::Created& made : context.created()) {
    if (!may_create) refuse_again(made.text, function);
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, !made.state.expired(),
        "{} in function '{}' is gone after its first call: nothing keeps it. Keep it "
        "outside, in a std::optional<Variable> that the first call fills",
        made.text, function);
  }
}

TraceResult run_traced(const TraceContext& context, const HostRun& run,
                       std::span<const Tensor> inputs, std::span<const Variable> variables) {
  try {
    return run(inputs, variables);
  } catch (...) {
    if (context.unmade() == nullptr) throw;
    throw NoGraph{*context.unmade(), std::current_exception()};
  }
}

TraceRef FunctionCore::or_first_run(FirstRun* first, TracingTicket& ticket, CallSite where,
                                    const std::function<TraceRef()>& trace) {
  return located_in(name(), where, [&] {
    try {
      return trace();
    } catch (const NoGraph& cause) {
      begin_first_run(cause, first, ticket);
      return TraceRef();
    }
  });
}

void FunctionCore::begin_first_run(const NoGraph& cause, FirstRun* first, TracingTicket& ticket) {
  const TraceContext::Unmade& variable = cause.variable;
  // A function that calls others may run once for each of them. If it makes a new function in each
  // call, it would never get a graph.
  const bool is_own = variable.function.empty();
  const bool may_create = is_own ? is_untraced() : [&] {
    const std::shared_lock lock(kept_->mutex);
    return std::ranges::count(kept_->first_runs, variable.function) == 0;
  }();
  if (!may_create) refuse_again(variable.text, name());
  ETUDE_REQUIRE_CODE(
      kFailedPrecondition, first != nullptr,
      "the initial value of {} depends on an argument of function '{}' or on a random "
      "key, which trace() does not have. Call the function once before: the first call makes it",
      variable.text, name());
  if (TraceContext::innermost() != nullptr) {
    TraceContext::note_unmade({variable.text, is_own ? name() : variable.function});
    std::rethrow_exception(cause.error);
  }
  first->function_ = this;
  first->maker_ = is_own ? name() : variable.function;
  first->exceptions_ = std::uncaught_exceptions();
  first->ticket_ = std::move(ticket);
}

FirstRun::~FirstRun() {
  if (function_ == nullptr || std::uncaught_exceptions() > exceptions_) return;
  const std::unique_lock lock(function_->kept_->mutex);
  function_->kept_->first_runs.push_back(std::move(maker_));
}

}  // namespace etude::internal
