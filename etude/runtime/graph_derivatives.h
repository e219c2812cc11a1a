// SPDX-License-Identifier: Apache-2.0
// What is made of a graph by running it, node by node, under a tape, a jvp or a vmap inside a
// trace: graphs again, which are derived, batched, planned and called like any other. No op with a
// graph has rules of its own. Each is made once and kept by the graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Some of the inputs of a graph.
class Chosen {
 public:
  // By the bits of a rule: bit i, and bit 63 for all from 63 on.
  Chosen(uint64_t bits, std::size_t size);
  explicit Chosen(std::vector<bool> which) : which_(std::move(which)) {}

  bool operator[](std::size_t i) const { return which_[i]; }
  std::size_t size() const { return which_.size(); }
  // "0110": what a graph knows it by.
  std::string to_string() const;

 private:
  std::vector<bool> which_;
};

// A graph cut in two, so that what lies between the runs is known.
struct GraphDerivative final : RefCounted {
  // The inputs of the graph; its outputs, and then what `backward` reads of the run.
  GraphRef forward;
  // That, and then the cotangents of the outputs of differentiable dtypes; gives the cotangents of
  // the chosen inputs, absent where there is none.
  GraphRef backward;
};

// throws: kUnimplemented for an op on the way that has no derivative, naming it.
RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted);
// Inputs of the graph, then tangents of the chosen ones; gives a tangent per output, absent where
// none moves. throws: as derivative_of().
GraphRef tangent_graph_of(const Graph& graph, const Chosen& moved);
// The chosen inputs have `size` examples along axis 0, and so have all outputs.
GraphRef batched_graph_of(const Graph& graph, const Chosen& batched, int64_t size);

}  // namespace internal
}  // namespace etude
