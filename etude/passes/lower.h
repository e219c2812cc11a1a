// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "etude/base/internal/function_ref.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Lowering (decomposition): replaces each call of an op without a kernel by the calls of its
// lowering. A traced graph contains no such calls, but a graph parsed from text may.
//
// throws: the error of a lowering, with the name and line of the node.
GraphRef lower_compositions(const Graph& graph);

// Whether a target runs calls of this op with operands of these types (null: absent). May throw for
// a call that has no lowering; the error gets the name and the line of the node.
using HasForm =
    FunctionRef<bool(const Op& op, std::span<const Type* const> types, const Attrs& attrs)>;
// Lowers a graph for a target other than the kernels. Replaces each call that the target does not
// run by the calls of its lowering. These calls are lowered in the same way, if necessary. The
// lowering of an element-wise call consists of calls of the functions in its program. Calls without
// a lowering stay. Graphs in attributes are not changed.
//
// throws: as lower_compositions, and errors of `has_form`.
GraphRef lower_to(const Graph& graph, HasForm has_form);
// Whether lower_to() can lower the call.
bool has_lowering(const Op& op);

}  // namespace etude::internal
