// SPDX-License-Identifier: Apache-2.0
// Inputs of graphs that are random keys. A loop has one also where its body draws nothing, since it
// takes a key before that is known: so an input that nothing reads is no draw. Used by
// function_core.cc and control_flow.cc.
#pragma once

#include <cstddef>
#include <optional>

#include "etude/core/tensor.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// The first node of the graph that reads this input.
std::optional<std::size_t> first_reader(const Graph& graph, std::size_t input);

// A key for an input that nothing reads. It means nothing.
Tensor unread_key();

// The next key of the sequence, for this input of the graph. Where draws are refused, and in a
// trace, which must not seem to draw, an input that nothing reads gets unread_key(). throws:
// kFailedPrecondition for a refused draw, with the name and line of the node that reads it.
Tensor key_for_input(const Graph& graph, std::size_t input);

}  // namespace etude::internal
