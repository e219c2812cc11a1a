// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/rows.h"

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/located.h"
#include "etude/ops.h"

namespace etude {

RowIterator begin(const Tensor& x, CallSite where) {
  const CallScope scope(where);
  internal::located("begin", where, [&] {
    ETUDE_REQUIRE(x.rank() > 0,
                  "a loop over rows needs an axis, but operand 'x' is a scalar. Reshape it to [1]");
    static_cast<void>(x.shape(where)[0]);  // a graph has this many rows: their number is looked at
  });
  return RowIterator(unstack(Arg(x, where)));
}

}  // namespace etude
