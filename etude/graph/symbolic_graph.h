// SPDX-License-Identifier: Apache-2.0
// SymbolicGraph: one graph for many sizes. Each number in it that depends on a size chosen by the
// caller (a size in a type, a number in an attribute, elements of a small constant) is a formula
// over symbolic sizes. A symbolic graph is found by comparing graphs of one function traced at
// different sizes; nothing is computed with unknown sizes.
//
//   sizes of step: n is axis 0 of x, axis 0 of y
//     %4: [n,10]
//     %6 = reshape: shape is [10*n]
//     %7 = constant: 1/n
//
// * Graphs match if they have the same ops with the same edges, and each number that differs is a
//   rational number times a product of sizes, plus a constant. Otherwise the first node that
//   differs is reported. A result size need not have such a formula: type rules compute it.
// * Axes of inputs that are equal in each of the graphs are one size.
// * at() substitutes sizes and runs the type rules, without host code. It refuses a type that
//   differs from its formula (rounded up or down), a number for which the candidate formulas
//   disagree, and a rounded size together with a number that may be its reciprocal. The function
//   must then be traced at these sizes. A symbolic graph that is found from the new graph as well
//   covers more sizes.
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

// A symbolic graph, or the reason why there is none.
struct SymbolicFound {
  SymbolicGraphRef symbolic;
  std::string difference;  // "node 3, %5 = reshape: ...  # train.cc:12"
};
// The graph at some sizes, or the reason why there is none.
struct GraphAtSizes {
  GraphRef graph;
  std::string refusal;
};

// Immutable. threads: thread-safe.
class SymbolicGraph final : public internal::RefCounted {
 public:
  // Finds the symbolic graph of two or more graphs. `sizes_read` may list, in order, the sizes that
  // host code read during each trace; graphs with different reads do not match. cost: linear in the
  // graphs.
  static SymbolicFound of(std::span<const GraphRef> graphs,
                          std::span<const std::vector<internal::SizeRead>> sizes_read = {});

  static constexpr int64_t kLeastSize = 2;
  // A size that callers choose, and the axes of inputs that have it.
  struct Size {
    std::string name;                               // n, m, k, l, p, q
    std::vector<std::pair<std::size_t, int>> axes;  // input, axis
    std::vector<int64_t> seen;                      // in each graph
  };
  std::span<const Size> sizes() const noexcept;
  // Whether input i may have this type: only symbolic sizes may differ.
  bool may_take(std::size_t i, const Type* type) const;
  // The sizes for inputs of these types. Empty if the inputs do not match the symbolic graph: they
  // differ in more than symbolic sizes, or axes that share a size differ.
  std::vector<int64_t> sizes_of(std::span<const Type* const> inputs) const;
  // The graph at these sizes. The most recent graphs are cached. cost: about a microsecond per
  // node.
  GraphAtSizes at(std::span<const int64_t> sizes) const;
  // The graph for these inputs: the result of at() for their sizes.
  //
  // throws: kInvalidArgument, naming the first wrong input, for inputs that do not match the
  // symbolic graph, and, with the reason, for sizes without a graph.
  GraphRef graph_for(std::span<const Tensor> inputs) const;
  // The graphs that the symbolic graph was found from.
  std::span<const GraphRef> graphs() const noexcept;
  // Whether each varying number of this symbolic graph (sizes in types excepted) has a counterpart
  // in `other`: a number, or a size in a type, with the same values in all graphs. Both then have
  // the same formulas, and this symbolic graph is valid at all sizes at which `other` is valid.
  bool takes_numbers_from(const SymbolicGraph& other) const;
  // The type of input i: "float32[n,784]".
  std::string input_text(std::size_t i) const;
  // The text in the form of the example above.
  std::string to_string() const;

  explicit SymbolicGraph(std::unique_ptr<const internal::SymbolicParts> parts);
  ~SymbolicGraph() override;

 private:
  std::unique_ptr<const internal::SymbolicParts> parts_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::vector<int64_t>, GraphRef>> made_;  // most recent last
};

}  // namespace etude
