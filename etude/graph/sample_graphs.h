// SPDX-License-Identifier: Apache-2.0
// Graphs for tests of this folder: some by hand, any number at random.
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

// An op with an attribute that is a graph, which it runs: "apply_sample".
const Op& apply_op();
// An op with an attribute of each other kind, all with defaults or absent: "attrs_sample".
const Op& attrs_op();

Attrs attrs_of(const Op& op, const std::vector<std::pair<std::string_view, AttrValue>>& values);

// y = tanh(matmul(x, w) * scale), with a capture, a key that nobody reads, and lines.
GraphRef layer_graph();
// Calls layer_graph() and a graph that calls it as well, both called "body".
GraphRef nested_graph();
// Constants of all dtypes, with zeros of both signs, infinities and NaN.
GraphRef constants_graph();
// Inputs whose names need quotes or are given twice, absent operands and outputs.
GraphRef names_graph();
// The same for the same seed: element-wise ops, parts, sums, constants, absent outputs, graphs in
// attributes up to `depth` levels.
GraphRef random_graph(uint64_t seed, int depth = 2);

// All of the above, and some at random.
std::vector<GraphRef> sample_graphs();

}  // namespace etude::tests
