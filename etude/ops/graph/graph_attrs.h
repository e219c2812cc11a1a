// SPDX-License-Identifier: Apache-2.0
// Helpers of ops with graphs among their attributes: access to the graphs, construction of derived
// graphs, and execution in kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/autodiff/graph_derivatives.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/op.h"
#include "etude/eager/dispatch.h"
#include "etude/graph/graph.h"
#include "etude/ops/calls.h"
#include "etude/plan/plan.h"

namespace etude::ops {

using internal::Chosen;
using Graphs = std::vector<GraphRef>;
using Inputs = std::vector<Graph::Input>;
using Tensors = std::vector<Tensor>;

// throws: kInvalidArgument if the attribute holds no graph.
GraphRef graph_of(const Attrs& attrs, std::string_view name);
Graphs graphs_of(const Attrs& attrs, std::string_view name);
AttrValue graph_value(const GraphRef& graph);
AttrValue graphs_value(const Graphs& graphs);

// Appends inputs, with `prefix` before their names.
void add_inputs(Inputs& to, std::span<const Graph::Input> from, std::string_view prefix = "");
// Returns the next `count` elements of a list, and advances `at`.
std::span<const Tensor> part(std::span<const Tensor> list, std::size_t& at, std::size_t count);
template <class To>
void append(To& to, std::span<const Tensor> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// All operands, as a list that can be extended.
Tensors list_of(Operands operands);

// "float32[2] on cpu:1"; cpu:0 is not named.
std::string text_with_device(const Type* type);

// Selects the types that have cotangents.
std::vector<const Type*> differentiable(const Types& types);
Types types_of(Operands operands);
// Appends the cotangents of results first .. first + count - 1. Omits results whose type has no
// cotangent; absent cotangents become zeros.
void add_cotangents(Tensors& to, const VjpCall& call, std::size_t first, std::size_t count);
// The number of results of a call without the results that a tape added inside. Such a tape stores
// the number as the attribute `results`; without the attribute it is `visible`.
int64_t own_results(const Attrs& attrs, int64_t visible);
// For each operand: whether it has a tangent, whether it is a batch, or whether its cotangent is
// needed.
std::vector<bool> moving(const JvpCall& call);
std::vector<bool> batched(const BatchCall& call);
std::vector<bool> wanted(uint64_t bits, std::span<const Type* const> types);

// The initial value of a sum: -0, since adding a number to -0 keeps the bits of the number.
Tensor empty_sum(const Type* type);
// Appends the running cotangent sum of each operand in `sums`, so that a backward graph adds to it.
// For an operand that is not in `gives`, the sum remains outside of the graph, and an empty sum is
// appended. If nothing is added to an empty sum, it counts as 0. Returns, for each sum, whether it
// is in `gives` and starts empty.
std::vector<bool> add_sums(Tensors& to, const VjpCall& call, std::span<const int64_t> sums,
                           std::span<const int64_t> gives, bool is_added_to = true);

// A graph whose inputs have tangents. Inputs are in groups (carried values, rows, loop invariants).
// In each group the values come first, then the tangents of the values that have a tangent.
struct Doubled {
  Doubled(const Graph& graph, std::span<const std::size_t> groups, const std::vector<bool>& moves);
  // Selects the values, or the existing tangents, from a list in the order of `inputs`.
  Tensors values(std::span<const Tensor> given) const;
  Tensors tangents(std::span<const Tensor> given) const;
  // Orders outputs and their tangents in two groups: first the `carried` outputs, then the others.
  // A carried output has a tangent if its input has a tangent, even if the tangent is 0.
  static Tensors outputs(std::span<const Tensor> pushed, std::size_t carried,
                         const std::vector<bool>& moves);

  Inputs inputs;
  std::vector<std::size_t> group_sizes;
  std::vector<std::size_t> value_at, tangent_at;  // positions in `inputs`
};

Values call_op(const Op& op, std::span<const Tensor> operands,
               const std::vector<std::pair<std::string_view, AttrValue>>& attrs);

// The parameters of a kernel that runs plans.
struct PlanParams : KernelParams {
  void add(const GraphRef& graph) {
    graphs.push_back(graph);
    plans.push_back(internal::Plan::of(*graph));
  }
  Graphs graphs;  // plans are valid as long as these
  std::vector<internal::RefPtr<const internal::Plan>> plans;
};
// For a loop whose steps update carried value c in place: result c may reuse its memory.
void write_over(const PrepareCall& call, std::size_t c);
// Runs `f`, which returns whether a kernel succeeded; an exception counts as a fault.
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
