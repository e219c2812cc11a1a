// SPDX-License-Identifier: Apache-2.0
// What is made of a graph by running it, node by node, under a tape, a jvp or a vmap inside a
// trace: graphs again, which are derived, batched, planned and called like any other. No op with a
// graph has rules of its own. Each is made once and kept by the graph.
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
  // By the bits of a rule: bit i, and bit 63 for all from 63 on.
  Chosen(uint64_t bits, std::size_t size);
  explicit Chosen(std::vector<bool> which) : which_(std::move(which)) {}

  bool operator[](std::size_t i) const { return which_[i]; }
  std::size_t size() const { return which_.size(); }
  const std::vector<bool>& to_vector() const { return which_; }
  // "0110": what a graph knows it by.
  std::string to_string() const;

 private:
  std::vector<bool> which_;
};

// Operands by their numbers, as the bits of a rule.
uint64_t operand_bits(std::span<const int64_t> operands);

// A graph cut in two, so that what lies between the runs is known.
struct GraphDerivative final : RefCounted {
  // The inputs of the graph; its outputs, and then what `backward` reads of the run.
  GraphRef forward;
  // Those inputs of the graph that `read` lists, what `forward` gives behind the outputs, the
  // cotangents of the outputs of differentiable dtypes, and then sums for the inputs of `summed`.
  // Gives the cotangents of the chosen inputs, absent where there is none; for those of `summed`
  // the sum with its cotangents added one by one.
  GraphRef backward;
  std::vector<int64_t> read;
  std::vector<bool> adds;  // by chosen input: whether it has a cotangent
  // By chosen input: whether its cotangent is some rows of it, which `backward` gives as two
  // outputs, indices and values. Of sparse_derivative_of() only.
  std::vector<bool> is_rows;
};

// throws: kUnimplemented for an op on the way that has no derivative, naming it.
RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted);
// The same, where sparse cotangents stay rows, as they do where nobody stages the function.
RefPtr<const GraphDerivative> sparse_derivative_of(const Graph& graph, const Chosen& wanted);
// `summed` are some of the wanted inputs. What `backward` reads does not depend on them.
RefPtr<const GraphDerivative> sparse_derivative_of(const Graph& graph, const Chosen& wanted,
                                                   const Chosen& summed);
RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted,
                                            const Chosen& summed);
// Inputs of the graph, then tangents of the chosen ones; gives the outputs, and then a tangent per
// output, absent where none moves. Each call stands before its tangent, as where calls are made one
// by one. throws: as derivative_of().
GraphRef pushed_graph_of(const Graph& graph, const Chosen& moved);
// The chosen inputs have `size` examples along axis 0, and so have the outputs of `results`; the
// others must not depend on these inputs.
GraphRef batched_graph_of(const Graph& graph, const Chosen& batched, int64_t size,
                          const Chosen& results);
// The graph without calls that have effects outside, for whoever runs again what has run already: a
// print prints once, though the derivative of a loop runs its steps again. The graph itself if it
// has none.
GraphRef without_effects(const Graph& graph);
// Which outputs depend on the chosen inputs, by the way the nodes are wired.
Chosen outputs_behind(const Graph& graph, const Chosen& inputs);

}  // namespace internal
}  // namespace etude
