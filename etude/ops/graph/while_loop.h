// SPDX-License-Identifier: Apache-2.0
// The parts of the op while_loop, for its record and its derivative.
//
// A loop runs in *passes* over its steps. The first pass runs while the condition graph returns
// true. Each later pass runs over the same steps again, in the opposite direction of the pass
// before it. A pass carries values of its own from step to step. In each step it may write
// *records*, which later passes read in the same step. All other values of a step are dropped, and
// the records are released when the call ends. So the number of records appears in no type, and the
// derivative of a loop is a loop with twice as many passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/ops/graph/graph_attrs.h"

namespace etude::ops {

// Operands are the carried values of all passes in order, then the loop invariants. The body of
// pass p takes its carried values, the records of the passes before it, and the invariants; it
// returns its carried values for the next step, and its records. The condition takes the carried
// values of the first pass and the invariants. Results are the carried values of all passes.
struct WhileLoop {
  WhileLoop(const Attrs& attrs, std::size_t operands);
  WhileLoop() = default;

  std::size_t passes() const { return bodies.size(); }
  std::size_t all_carried() const { return first_carried(passes()); }
  // The index, among operands and results, of the first value that pass p carries.
  std::size_t first_carried(std::size_t p) const;
  // The number of records of a pass, and of all passes before it.
  std::size_t records(std::size_t p) const { return bodies[p]->outputs().size() - carried[p]; }
  std::size_t records_before(std::size_t p) const;
  // The sizes of the input groups of body p: carried values, records by pass, and the rest.
  std::vector<std::size_t> groups(std::size_t p) const;
  Values call(std::span<const Tensor> operands) const;

  GraphRef condition;
  Graphs bodies;
  std::vector<std::size_t> carried;  // by pass
  std::size_t invariants = 0;
  int64_t max_steps = -1;  // negative: no limit
};

Values while_vjp(const VjpCall& call);
Values while_jvp(const JvpCall& call);
Values while_batch(const BatchCall& call);

}  // namespace etude::ops
