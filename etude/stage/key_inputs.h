// SPDX-License-Identifier: Apache-2.0
// Graph inputs that are random keys. A loop gets a key input before it is known whether its body
// draws. So a key input that no node reads does not count as a draw. Used by function_core.cc and
// control_flow.cc.
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

// Returns the next key of the sequence for this input of the graph. For an unread input it returns
// unread_key() in two cases: if draws are refused, and in a trace, which would record the draw.
// throws: kFailedPrecondition for a refused draw, with the name and line of the node that reads it.
Tensor key_for_input(const Graph& graph, std::size_t input);

}  // namespace etude::internal
