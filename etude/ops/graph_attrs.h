// SPDX-License-Identifier: Apache-2.0
// What ops with graphs among their attributes share: looking at these, making others of them, and
// running them in kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/builtin.h"
#include "etude/core/op.h"
#include "etude/graph/graph.h"
#include "etude/ops/calls.h"
#include "etude/runtime/dispatch.h"
#include "etude/runtime/graph_derivatives.h"
#include "etude/runtime/plan.h"

namespace etude::ops {

using internal::Chosen;
using Graphs = std::vector<GraphRef>;
using Inputs = std::vector<Graph::Input>;
using Tensors = std::vector<Tensor>;

// throws: kInvalidArgument if the attribute holds something else.
GraphRef graph_of(const Attrs& attrs, std::string_view name);
Graphs graphs_of(const Attrs& attrs, std::string_view name);
AttrValue graph_value(const GraphRef& graph);
AttrValue graphs_value(const Graphs& graphs);

// Appends inputs, with `prefix` in front of their names.
void add_inputs(Inputs& to, std::span<const Graph::Input> from, std::string_view prefix = "");
// The next `count` of a list that is read from the front.
std::span<const Tensor> part(std::span<const Tensor> list, std::size_t& at, std::size_t count);
template <class To>
void append(To& to, std::span<const Tensor> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// All operands, in a list to which more may be added.
Tensors list_of(Operands operands);

// Those that have cotangents.
std::vector<const Type*> differentiable(const Types& types);
Types types_of(Operands operands);
// The cotangents of those of `count` results from `first` on that have one; zeros where none
// arrived.
void add_cotangents(Tensors& to, const VjpCall& call, std::size_t first, std::size_t count);
// By operand: whether it moves, is a batch, and has a cotangent that is asked for.
std::vector<bool> moving(const JvpCall& call);
std::vector<bool> batched(const BatchCall& call);
std::vector<bool> wanted(uint64_t bits, std::span<const Type* const> types);

// What a sum begins with: -0, to which the first number adds without a change.
Tensor empty_sum(const Type* type);
// Appends, for each of the operands `sums`, the sum of what has reached it, for a backward graph to
// add to; an empty one for those that are not among `gives`, whose sums stay where they are. Where
// nothing will be added, an empty one is 0. Says, for each, whether it is added to and begins
// empty.
std::vector<bool> add_sums(Tensors& to, const VjpCall& call, std::span<const int64_t> sums,
                           std::span<const int64_t> gives, bool is_added_to = true);

// A graph with tangents beside its inputs, which stand in groups (carried values, rows, what does
// not change): behind the values of a group stand the tangents of those that move.
struct Doubled {
  Doubled(const Graph& graph, std::span<const std::size_t> groups, const std::vector<bool>& moves);
  // Values, or tangents of those that move, out of a list in the order of `inputs`.
  Tensors values(std::span<const Tensor> given) const;
  Tensors tangents(std::span<const Tensor> given) const;
  // Outputs, and their tangents behind them, in two groups likewise: the `carried` ones, of which
  // those that move have a tangent, if it is 0, and the others.
  static Tensors outputs(std::span<const Tensor> pushed, std::size_t carried,
                         const std::vector<bool>& moves);

  Inputs inputs;
  std::vector<std::size_t> group_sizes;
  std::vector<std::size_t> value_at, tangent_at;  // places in `inputs`
};

Values call_op(const Op& op, std::span<const Tensor> operands,
               const std::vector<std::pair<std::string_view, AttrValue>>& attrs);

// Parameters of a kernel that runs plans.
struct PlanParams : KernelParams {
  void add(const GraphRef& graph) {
    graphs.push_back(graph);
    plans.push_back(internal::Plan::of(*graph));
  }
  Graphs graphs;  // plans are good while these are
  std::vector<internal::RefPtr<const internal::Plan>> plans;
};
// The carried value that a loop begins with, unless it is there already.
void copy_start(void* to, const void* from, std::size_t bytes);
// For a loop whose steps update carried value c: result c may be written where that is.
void write_over(const PrepareCall& call, std::size_t c);
// What `f` gives, whether a kernel went well; what it throws is a fault.
template <class F>
bool guarded(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    return internal::report_error(error);
  } catch (const std::bad_alloc&) {
    return report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
  }
}

}  // namespace etude::ops
