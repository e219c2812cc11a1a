// SPDX-License-Identifier: Apache-2.0
// Graphs for tests of this folder: some hand-written, any number of random graphs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/op/registry.h"
#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::tests {

using Draft = GraphBuilder::Draft;

inline const Op& op(std::string_view name) { return Registry::global().at(name); }

// An op that runs a graph in its attribute: "apply_sample".
const Op& apply_op();
// An op with an attribute of each other kind, all with defaults or absent: "attrs_sample".
const Op& attrs_op();

Attrs attrs_of(const Op& op, const std::vector<std::pair<std::string_view, AttrValue>>& values);

// y = tanh(matmul(x, w) * scale), with a capture, an unused key, and lines.
GraphRef layer_graph();
// Calls layer_graph() and a graph that also calls it, both named "body".
GraphRef nested_graph();
// Constants of all dtypes, with zeros of both signs, infinities and NaN.
GraphRef constants_graph();
// Inputs whose names need quotes or are repeated, absent operands and outputs.
GraphRef names_graph();
// Equal for equal seeds: element-wise ops, parts, sums, constants, absent outputs, graphs in
// attributes up to `depth` levels.
GraphRef random_graph(uint64_t seed, int depth = 2);

// All of the above, and some random graphs.
std::vector<GraphRef> sample_graphs();

}  // namespace etude::tests
