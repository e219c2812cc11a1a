// SPDX-License-Identifier: Apache-2.0
// Calls of the ops that carry graphs, for the contexts and for what is built on them. A graph is an
// AttrObject here, since graphs lie above the core.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "etude/core/attrs.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

using AttrObjects = std::vector<RefPtr<const AttrObject>>;

// Branch number operands[0], on the other operands (op switch_case).
Values switch_graphs(const AttrObjects& branches, Operands operands, CallSite where);
// `body` for each row (op scan): the first `carried` operands are carried from step to step, and
// the `rows` that follow have `length` rows each.
Values scan_graph(const AttrObject& body, Operands operands, int64_t carried, int64_t rows,
                  int64_t length, CallSite where);
// `body` as long as `condition` says (op while_loop), at most `max_steps` times if that is not
// negative.
Values loop_graph(const AttrObject& condition, const AttrObjects& body, Operands operands,
                  int64_t carried, int64_t max_steps, CallSite where);

}  // namespace internal
}  // namespace etude
