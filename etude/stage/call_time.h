// SPDX-License-Identifier: Apache-2.0
// call_time_value(thunk): a value that host code computes at each call of a staged function. The
// value is an input of the graph, but not an argument of the function.
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

// A thunk and its line. Traces treat thunks of one line and one C++ type as the same thunk.
struct CallTimeValue {
  std::function<Tensor()> thunk;
  std::type_index callable;
  CallSite where;

  // Runs the thunk and returns the result. throws: the errors of the thunk; kFailedPrecondition if
  // the result is an absent tensor or a value of a trace; kUnimplemented for a sparse tensor.
  Tensor value() const;
};

// Returns the current value. While a function is traced, returns a placeholder of the value.
Tensor take_call_time_value(const std::shared_ptr<const CallTimeValue>& source);

}  // namespace internal

// Returns the result of `thunk()` as a tensor. The result must be a tensor or convert to a tensor.
// In eager mode the thunk runs at once. While a function is traced, the value becomes an input of
// the graph. Each call of the function then runs the thunk. A nested function, a branch or a loop
// body uses the value of the outermost call. So all steps of a loop see the same value.
//
// The thunk runs outside of all traces and tapes, so no derivative passes through it. Each trace
// also runs the thunk. The graph stores the thunk, so objects to which it refers must live as long
// as the graph.
//
// throws: the errors of the thunk, before any other part of the call has run; kInvalidArgument if
//   the dtype or the shape of a later value differs from the traced value; kFailedPrecondition if
//   the thunk returns an absent tensor or a value of a trace; kUnimplemented for a sparse tensor.
// threads: the thunk runs on the thread of each call.
template <class F>
requires std::is_invocable_r_v<Tensor, const F&> Tensor
call_time_value(F thunk, CallSite where = CallSite::here()) {
  internal::require_owned<const F&>();
  return internal::take_call_time_value(std::make_shared<const internal::CallTimeValue>(
      internal::CallTimeValue{std::move(thunk), typeid(F), where}));
}

}  // namespace etude
