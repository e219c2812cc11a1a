// SPDX-License-Identifier: Apache-2.0
// call_time_value(thunk): a value that host code computes at each call of a staged function. In the
// graph it is an input, although it is not an argument.
//
//   double rate = 0.1;
//   const auto step = function([&](const Tensor& w, const Tensor& slope) {
//     return w - call_time_value([&] { return rate; }) * slope;
//   });
//   step(w, slope);
//   rate = 0.05;
//   step(w, slope);   // sees 0.05; no new trace
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/core/internal/owned_result.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A thunk and its line. Traces treat all thunks of one line as the same thunk.
struct CallTimeValue {
  std::function<Tensor()> thunk;
  std::type_index callable;
  CallSite where;

  // The current result of the thunk. throws: the errors of the thunk; kFailedPrecondition if it
  // returns an absent tensor or a value of a trace; kUnimplemented for a sparse tensor.
  Tensor value() const;
};

// The current value; in a trace of a function, its placeholder.
Tensor take_call_time_value(const std::shared_ptr<const CallTimeValue>& source);

}  // namespace internal

// Returns `thunk()` at the call: a tensor, or a value that converts to a tensor. While a function
// is traced, it becomes an input of the graph; each call runs the thunk to compute the input. A
// nested function, a branch or a loop body takes the value from the outermost call; all steps of a
// loop then see one value. In eager mode it is the value of the thunk.
//
// The thunk runs outside of all traces and tapes, so no derivative passes through it. Each trace
// runs it once more. The graph stores it, so objects to which it refers must live as long as the
// graph.
//
// throws: the errors of the thunk, before any other part of the call has run; kInvalidArgument if a
//   later value has another dtype or shape than while the function was traced; kFailedPrecondition
//   if the thunk returns an absent tensor or a value of a trace.
// threads: the thunk runs on the thread of each call.
template <class F>
requires std::is_invocable_r_v<Tensor, const F&> Tensor
call_time_value(F thunk, CallSite where = CallSite::here()) {
  internal::require_owned<const F&>();
  return internal::take_call_time_value(std::make_shared<const internal::CallTimeValue>(
      internal::CallTimeValue{std::move(thunk), typeid(F), where}));
}

}  // namespace etude
