// SPDX-License-Identifier: Apache-2.0
// Family: one graph for many sizes. Each number in it that follows from a size that callers choose
// (a size in a type, a number in an attribute, elements of a small constant) is a formula over
// named sizes. It is found by comparing graphs of one function that were traced at different
// sizes; nothing computes with unknown sizes.
//
//   sizes of step: n is axis 0 of x, axis 0 of y
//     %4: [n,10]
//     %6 = reshape: shape is [10*n]
//     %7 = constant: 1/n
//
// * Graphs agree if they have the same ops in the same wiring, and each number that differs is a
//   rational times a product of sizes, plus a constant. Where they do not, the first node that
//   differs is told. The size of a result need not have such a formula: type rules give it.
// * Axes of inputs that are equal in each of the graphs are one size.
// * at() puts sizes in and runs the type rules, no host code. It refuses a type that a rule gives
//   and its formula, rounded up or down, does not; a number on which the formulas that fit do not
//   agree; and a rounded size beside a number that may be 1 over it. Then these sizes must be
//   traced, and the family of one more graph knows more.
// * Sizes of 0 and 1, given or derived, are refused: what broadcasts hangs on them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/context/size_reads.h"
#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Family;
using FamilyRef = internal::RefPtr<const Family>;

namespace internal {
class FamilyParts;
}  // namespace internal

// A family, or why there is none.
struct FamilyFound {
  FamilyRef family;
  std::string difference;  // "node 3, %5 = reshape: ...  # train.cc:12"
};
// The graph at some sizes, or why there is none.
struct FamilyGraph {
  GraphRef graph;
  std::string refusal;
};

// Immutable. thread-safe.
class Family final : public internal::RefCounted {
 public:
  // What the graphs, of which there are two or more, have in common. `sizes_read` has what host
  // code looked at while each was traced, in order, and may be left out: one that differs is a
  // difference. cost: linear in the graphs.
  static FamilyFound of(std::span<const GraphRef> graphs,
                        std::span<const std::vector<internal::SizeRead>> sizes_read = {});

  static constexpr int64_t kLeastSize = 2;
  // A size that callers choose, and the inputs that have it.
  struct Size {
    std::string name;                               // n, m, k, l, p, q
    std::vector<std::pair<std::size_t, int>> axes;  // input, axis
    std::vector<int64_t> seen;                      // in each graph
  };
  std::span<const Size> sizes() const noexcept;
  // Whether input i may have this type: at most named sizes differ.
  bool may_take(std::size_t i, const Type* type) const;
  // The sizes that inputs of these types have; empty if they are not of this family: they differ in
  // more than named sizes, or axes that share a name have different ones.
  std::vector<int64_t> sizes_of(std::span<const Type* const> inputs) const;
  // The graph at these sizes. The latest are kept. cost: about a microsecond a node.
  FamilyGraph at(std::span<const int64_t> sizes) const;
  // The graph for these inputs: at() of their sizes.
  //
  // throws: kInvalidArgument for inputs that are not of this family, naming the first; for sizes at
  //         which it has no graph, saying why.
  GraphRef graph_for(std::span<const Tensor> inputs) const;
  // The graphs that it was found from.
  std::span<const GraphRef> graphs() const noexcept;
  // Whether each number that differs in this one, sizes in types aside, has the values in its
  // graphs that a number or a size in a type of `other` has in those: so it follows by the same
  // formulas, and is right where that is.
  bool takes_numbers_from(const Family& other) const;
  // The type of input i: "float32[n,784]".
  std::string input_text(std::size_t i) const;
  // As above.
  std::string to_string() const;

  explicit Family(std::unique_ptr<const internal::FamilyParts> parts);
  ~Family() override;

 private:
  std::unique_ptr<const internal::FamilyParts> parts_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::vector<int64_t>, GraphRef>> made_;  // latest last
};

}  // namespace etude
