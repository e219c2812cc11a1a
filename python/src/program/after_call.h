// SPDX-License-Identifier: Apache-2.0
// The arguments of a staged function after a call, in the order of their leaves before it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "python/src/program/staged.h"
#include "python/src/program/tree.h"

namespace etude::python {

struct AfterCall {
  const std::vector<nb::object>& passed;  // the leaves before the call
  std::vector<nb::object> leaves = {};
  // Optimisers whose state has another structure, and the tensors of their states.
  std::vector<ResultForm::Grown> grown = {};
  std::vector<nb::object> grown_leaves = {};

  // Adds the leaves of a part, from now[next] on. False if its structure has changed. An
  // optimiser may change: its leaves then count as unchanged here, and its new ones are in `grown`.
  bool add(const TreeDef& before, const TreeDef& after, std::span<const nb::object> now,
           std::size_t& next);

 private:
  void add_optimizer(const TreeDef& before, const TreeDef& after, std::span<const nb::object> now);
};

}  // namespace etude::python
