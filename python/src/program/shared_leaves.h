// SPDX-License-Identifier: Apache-2.0
// Leaves of a tree that are one object at several paths, such as the weight of a layer that a model
// has twice. Training moves such an object once, along the sum of its gradients.
#pragma once

#include <cstddef>
#include <vector>

#include "etude/parts/parts.h"
#include "python/src/program/tree.h"

namespace etude::python {

// The first path of an object is the path of its state in an optimiser. All functions but join()
// of leaves and the constructor need no GIL.
class SharedLeaves {
 public:
  explicit SharedLeaves(const Tree& tree);

  bool empty() const noexcept { return pairs_.empty(); }
  // Adds the gradients at later paths to those at the first paths.
  // throws: kInvalidArgument, with both paths, for two changes of one state.
  void add_up(Parts& gradients) const;
  // Takes the values at later paths away, so that no copy of them is kept or moved.
  void take_away(Parts& parts) const;
  // Sets the values at later paths to those at the first paths.
  void fill(Parts& parts) const;
  // Makes the leaves at later paths the objects at the first paths.
  void join(std::vector<nb::object>& leaves) const;

 private:
  struct Pair {
    std::size_t first, later;  // leaves of the def
  };
  const FormLeaf& leaf_of(std::size_t leaf) const;

  const TreeDef* def_;
  std::vector<Pair> pairs_;
};

// throws: kFailedPrecondition, with its path, for a new state of a layer that is a value of a trace
//         which has ended.
void require_living_states(const Parts& gradients);

}  // namespace etude::python
