// SPDX-License-Identifier: Apache-2.0
// Graph inputs that are random keys. A loop takes a key before its body is known to draw or not, so
// an unread key input does not count as a draw. Used by function_core.cc and control_flow.cc.
#pragma once

#include <cstddef>
#include <optional>

#include "etude/core/tensor.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// The first node of the graph that reads this input.
std::optional<std::size_t> first_reader(const Graph& graph, std::size_t input);

// A key for an unread input. Its value is arbitrary.
Tensor unread_key();

// The next key of the sequence, for this input of the graph. An unread input gets unread_key() if
// draws are refused, and in a trace, since a draw would be recorded there.
// throws: kFailedPrecondition for a refused draw, with the name and line of the node that reads it.
Tensor key_for_input(const Graph& graph, std::size_t input);

}  // namespace etude::internal
