// SPDX-License-Identifier: Apache-2.0
// What the op while_loop is made of, for its record and its derivative.
//
// A loop runs in *passes* over its steps. The first goes on while a graph says so; each further one
// goes over the same steps again, from the other end than the pass before it. A pass carries values
// of its own from step to step, and in each step it may give *records*, which later passes see when
// they come to this step. Nothing else of a step is kept, and records go when the call ends: so
// their number needs not be known to any type, and the derivative of a loop is a loop again, with
// twice the passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "etude/core/op.h"
#include "etude/ops/graph_attrs.h"

namespace etude::ops {

// Operands are the carried values of all passes in order, and then what is the same for all steps.
// The body of pass p takes its carried values, the records of the passes before it, and what is the
// same for all; it gives its carried values for the next step, and its records. The condition takes
// the carried values of the first pass and what is the same for all. Results are the carried values
// of all passes.
struct WhileLoop {
  WhileLoop(const Attrs& attrs, std::size_t operands);
  WhileLoop() = default;

  std::size_t passes() const { return bodies.size(); }
  std::size_t all_carried() const { return first_carried(passes()); }
  // The operand, and the result, where the values that pass p carries begin.
  std::size_t first_carried(std::size_t p) const;
  // The number of records of a pass, and of all passes before it.
  std::size_t records(std::size_t p) const { return bodies[p]->outputs().size() - carried[p]; }
  std::size_t records_before(std::size_t p) const;
  // The sizes of the groups of the inputs of body p: carried values, records by pass, and the rest.
  std::vector<std::size_t> groups(std::size_t p) const;
  Values call(std::span<const Tensor> operands) const;

  GraphRef condition;
  Graphs bodies;
  std::vector<std::size_t> carried;  // by pass
  std::size_t invariants = 0;
  int64_t max_steps = -1;  // less than 0: no limit
};

Values while_vjp(const VjpCall& call);
Values while_jvp(const JvpCall& call);
Values while_batch(const BatchCall& call);

}  // namespace etude::ops
