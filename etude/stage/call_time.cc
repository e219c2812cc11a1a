// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/call_time.h"

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/traced.h"
#include "etude/stage/trace.h"
#include "etude/variables/init_scope.h"

namespace etude::internal {

Tensor CallTimeValue::value() const {
  Tensor x = init_scope(thunk);
  return located("call_time_value", where, [&] {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, x.has_value(),
                       "the thunk gives an absent tensor. Let it give a value");
    ETUDE_REQUIRE_CODE(kFailedPrecondition, observe(x),
                       "the thunk gives a value of a trace, and runs again when that is over: {}",
                       explain_ghost(x));
    ETUDE_REQUIRE_CODE(kUnimplemented, !TensorAccess::is_sparse(x),
                       "the thunk gives a sparse tensor. Let it give a dense one");
    return x;
  });
}

Tensor take_call_time_value(const std::shared_ptr<const CallTimeValue>& source) {
  return TraceContext::take_call_time(source);
}

}  // namespace etude::internal
