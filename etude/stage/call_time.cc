// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/call_time.h"

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/traced.h"
#include "etude/stage/trace.h"
#include "etude/variables/init_scope.h"

namespace etude::internal {

Tensor CallTimeValue::value() const {
  Tensor x = init_scope(thunk);
  return located("call_time_value", where, [&] {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, x.has_value(),
                       "the thunk returns an absent tensor. Let it return a value");
    ETUDE_REQUIRE_CODE(kFailedPrecondition, observe(x),
                       "the thunk returns a value of a trace, but also runs after the trace: {}",
                       explain_abstract(x));
    ETUDE_REQUIRE_CODE(kUnimplemented, !TensorAccess::is_sparse(x),
                       "the thunk returns a sparse tensor. Let it return to_dense() of it");
    return x;
  });
}

Tensor take_call_time_value(const std::shared_ptr<const CallTimeValue>& source) {
  return TraceContext::take_call_time(source);
}

}  // namespace etude::internal
