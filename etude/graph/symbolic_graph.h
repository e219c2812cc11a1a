// SPDX-License-Identifier: Apache-2.0
// SymbolicGraph: one graph for many sizes. A number that depends on a size chosen by the caller is
// a formula over symbolic sizes. Such numbers are sizes in types, numbers in attributes, and
// elements of small constants. SymbolicGraph::of() compares graphs of one function, traced at
// different sizes. Nothing is computed with unknown sizes.
//
//   sizes of step: n is axis 0 of x, axis 0 of y
//     %4: [n,10]
//     %6 = reshape: shape is [10*n]
//     %7 = constant: 1/n
//
// * Graphs match if they have the same ops with the same edges, and each number that differs is a
//   rational number times a product of sizes, plus a constant. Otherwise of() reports the first
//   node that differs. A result size may have no formula, since the type rules compute it.
// * Two axes of inputs have one symbolic size if they are equal in each of the graphs.
// * at() substitutes sizes and runs the type rules, without host code. It refuses the sizes in
//   three cases. First, the type rules compute a size that is neither the value of its formula nor
//   that value rounded up or down. Second, a number has several formulas, and they disagree. Third,
//   a size is rounded, and a number may be the reciprocal of that size. After a refusal, the
//   function must be traced at these sizes. A symbolic graph of the old and the new graphs covers
//   more sizes.
// * Sizes of 0 and 1, given or derived, are refused, since broadcasting depends on them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/internal/size_reads.h"
#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class SymbolicGraph;
using SymbolicGraphRef = internal::RefPtr<const SymbolicGraph>;

namespace internal {
class SymbolicParts;
}  // namespace internal

// A symbolic graph, or the reason why the graphs do not form a symbolic graph.
struct SymbolicFound {
  SymbolicGraphRef symbolic;
  std::string difference;  // "node 3, %5 = reshape: ...  # train.cc:12"
};
// The graph at some sizes, or the reason why the sizes were refused.
struct GraphAtSizes {
  GraphRef graph;
  std::string refusal;
};

// Immutable. threads: thread-safe.
class SymbolicGraph final : public internal::RefCounted {
 public:
  // Finds the symbolic graph of two or more graphs. `sizes_read` may list, in order, the sizes that
  // host code read during each trace. Graphs with different reads do not match. cost: linear in the
  // size of the graphs.
  static SymbolicFound of(std::span<const GraphRef> graphs,
                          std::span<const std::vector<internal::SizeRead>> sizes_read = {});

  static constexpr int64_t kLeastSize = 2;
  // A size that callers choose, and the axes of inputs with this size.
  struct Size {
    std::string name;                               // n, m, k, l, p, q
    std::vector<std::pair<std::size_t, int>> axes;  // input, axis
    std::vector<int64_t> seen;                      // in each graph
  };
  std::span<const Size> sizes() const noexcept;
  // Whether input i may have this type. Only symbolic sizes may differ.
  bool may_take(std::size_t i, const Type* type) const;
  // Returns the sizes for inputs of these types. Returns an empty list if the types differ in more
  // than symbolic sizes, or if axes that share a size differ.
  std::vector<int64_t> sizes_of(std::span<const Type* const> inputs) const;
  // Returns the graph at these sizes. The most recently made graphs are cached.
  // throws: kInvalidArgument for a wrong number of sizes.
  // cost: about a microsecond per node.
  GraphAtSizes at(std::span<const int64_t> sizes) const;
  // Returns the graph for these inputs: the result of at() for their sizes.
  //
  // throws: kInvalidArgument for inputs that do not match the symbolic graph, and, with the reason,
  // for sizes that at() refuses.
  GraphRef graph_for(std::span<const Tensor> inputs) const;
  // The graphs passed to of().
  std::span<const GraphRef> graphs() const noexcept;
  // Whether each varying number in an attribute or constant of this symbolic graph has a
  // counterpart in `other`. The counterpart is a number, or a size in a type, with the same values
  // in all graphs. Both then have the same formulas, and this symbolic graph is valid at all sizes
  // at which `other` is valid.
  bool takes_numbers_from(const SymbolicGraph& other) const;
  // The type of a value of the first graph as text: "float32[n,784]". An axis of a result has the
  // formula of the sizes that were seen, or "?" without one. Input i is value i.
  std::string type_text(GraphValue value) const;
  // The symbolic sizes and formulas as text, as in the example above.
  std::string to_string() const;

  explicit SymbolicGraph(std::unique_ptr<const internal::SymbolicParts> parts);
  ~SymbolicGraph() override;

 private:
  std::unique_ptr<const internal::SymbolicParts> parts_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::vector<int64_t>, GraphRef>> made_;  // most recently made last
};

}  // namespace etude
