// SPDX-License-Identifier: Apache-2.0
// Transformations of a graph. Inside a trace, the graph runs node by node under a tape, a jvp or a
// vmap. The results are graphs, which can be differentiated, batched, planned and called like any
// other. So ops with graphs need no rules of their own. The graph caches each result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Some of the inputs of a graph.
class Chosen {
 public:
  // From the bits of a rule: bit i, and bit 63 for all inputs from 63 on.
  Chosen(uint64_t bits, std::size_t size);
  explicit Chosen(std::vector<bool> which) : which_(std::move(which)) {}

  bool operator[](std::size_t i) const { return which_[i]; }
  std::size_t size() const { return which_.size(); }
  const std::vector<bool>& to_vector() const { return which_; }
  // "0110": the key of a cached result.
  std::string to_string() const;

 private:
  std::vector<bool> which_;
};

// Operand indices as the bits of a rule.
uint64_t operand_bits(std::span<const int64_t> operands);

// The two halves of a derivative, with the data that passes from one to the other.
struct GraphDerivative final : RefCounted {
  // Maps the inputs of the graph to its outputs, followed by the residuals that `backward` reads.
  GraphRef forward;
  // Inputs: the graph inputs that `read` lists, the residuals of `forward`, the cotangents of the
  // outputs of differentiable dtypes, and the sums of the inputs in `summed`. Outputs: the
  // cotangents of the chosen inputs, absent if none; for inputs in `summed`, the sum with the
  // cotangents added one by one.
  GraphRef backward;
  std::vector<int64_t> read;
  std::vector<bool> adds;  // by chosen input: whether it has a cotangent
  // By chosen input: whether its cotangent is sparse rows. `backward` returns them as two outputs,
  // indices and values. Only sparse_derivative_of() sets it.
  std::vector<bool> is_rows;
};

// throws: kUnimplemented, naming the op, for an op on the path without a derivative.
RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted);
// The same, but sparse cotangents remain rows, as in eager mode.
RefPtr<const GraphDerivative> sparse_derivative_of(const Graph& graph, const Chosen& wanted);
// `summed` are some of the wanted inputs. The residuals do not depend on them.
RefPtr<const GraphDerivative> sparse_derivative_of(const Graph& graph, const Chosen& wanted,
                                                   const Chosen& summed);
RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted,
                                            const Chosen& summed);
// A graph in forward mode. Inputs: the inputs of `graph`, then tangents of the chosen inputs.
// Outputs: the outputs of `graph`, then a tangent for each output, absent if the output does not
// depend on a chosen input. Each call precedes its tangent, as in eager mode. throws: as
// derivative_of().
GraphRef pushed_graph_of(const Graph& graph, const Chosen& moved);
// A graph on a batch. The chosen inputs have `size` examples along axis 0, and so have the outputs
// in `results`; other outputs must not depend on the chosen inputs.
GraphRef batched_graph_of(const Graph& graph, const Chosen& batched, int64_t size,
                          const Chosen& results);
// Returns the graph without calls that have effects outside, or the graph itself if there are no
// such calls. Used to run a part again: the derivative of a loop runs its steps again, but a print
// in a step prints once. Calls whose results have elements remain.
GraphRef without_effects(const Graph& graph);
// The outputs that depend on the chosen inputs, judging by the edges of the graph alone.
Chosen outputs_behind(const Graph& graph, const Chosen& inputs);

}  // namespace internal
}  // namespace etude
