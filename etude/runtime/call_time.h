// SPDX-License-Identifier: Apache-2.0
// call_time_value(thunk): a value that host code gives at each call of a staged function, as an
// input of its graph that nobody passes.
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
#include "etude/core/owned_result.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A thunk and the line that gave it. The thunk of one line is taken for the same in all traces.
struct CallTimeValue {
  std::function<Tensor()> thunk;
  std::type_index callable;
  CallSite where;

  // What the thunk gives now. throws: what it throws; kFailedPrecondition for no value of its own.
  Tensor value() const;
};

// Its value now; in a trace of a function, what stands for it.
Tensor take_call_time_value(const std::shared_ptr<const CallTimeValue>& source);

}  // namespace internal

// What `thunk()` gives, a tensor or what is one, at the call: while a function is traced, an input
// of its graph, for which the thunk is run at each call. A function within others, a branch or a
// body of a loop gets it from the outermost call; all steps of a loop see one value then. Eagerly
// it is the thunk's value.
//
// The thunk runs outside of all traces and tapes, so no derivative passes through it. It runs once
// more for each trace, and lives as long as the graph: what it refers to must as well.
//
// throws: what the thunk throws, before anything of the call has run; kInvalidArgument if a later
//   value has another dtype or shape than while the function was traced; kFailedPrecondition if the
//   thunk gives an absent tensor or a value of a trace.
// threads: the thunk runs on the thread of each call.
template <class F>
requires std::is_invocable_r_v<Tensor, const F&> Tensor
call_time_value(F thunk, CallSite where = CallSite::here()) {
  internal::require_owned<const F&>();
  return internal::take_call_time_value(std::make_shared<const internal::CallTimeValue>(
      internal::CallTimeValue{std::move(thunk), typeid(F), where}));
}

}  // namespace etude
