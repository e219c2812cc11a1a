// SPDX-License-Identifier: Apache-2.0
// cond, switch_case, while_loop, fold, scan: control flow that depends on elements of tensors.
//
//   Tensor y = cond(sum(x) > 0.0F, [&] { return x; }, [&] { return -x; });
//   const auto digits = [](const Tensor& s, const Tensor& x) { return s * 10 + x; };
//   Tensor total = fold(digits, Tensor(0), xs);
//   auto [last, all] = scan([&](const Tensor& h, const Tensor& x) {
//     const Tensor next = tanh(matmul(h, w) + x);
//     return std::pair(next, next);
//   }, h0, inputs);
//
// In eager mode these functions are the `if` and the loops of the host. In a trace, each branch or
// body is traced once, into a graph of its own, and the call is a single node. Both forms compute
// the same bits. Both can be differentiated, batched and nested like any other call.
//
// Branches and bodies are callables on pytrees. They may read the values that they capture. Host
// values in the pytrees must not change. Branches and bodies may read and assign Variables; each
// run of a branch or body assigns again. Each call of cond, scan and so on takes one key of the
// thread's sequence of random keys. Draws in branches and bodies derive their keys from this key.
//
// throws (all): the errors of branches and bodies; kInvalidArgument, naming the field, for a pytree
//   whose structure changes; kFailedPrecondition for a Variable that is made in a traced branch or
//   body; kUnimplemented if the condition of a while_loop in a graph assigns a Variable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/base/structure.h"
#include "etude/core/call/arg.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/owned_result.h"
#include "etude/stage/function_core.h"
#include "etude/stage/internal/arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct LoopOptions {
  // The maximum number of steps, even if the condition is still true. Absent: no limit.
  std::optional<int64_t> max_iterations = {};
  // Shapes of state tensors, by path. A size of kAny may change from step to step:
  // {{"state/rows", {kAny, 3}}}. For eager mode only, since a graph has fixed sizes before it runs.
  std::map<std::string, Shape> shapes = {};
};

namespace internal {

// The structure, the types and the host values of a pytree. These must stay equal from step to
// step, or from branch to branch. The elements of tensors may differ.
class StructureShape {
 public:
  // `op` and `what` are names for messages: "while_loop", "state".
  template <class S>
  StructureShape(std::string_view op, std::string_view what, const S& s, CallSite where)
      : StructureShape(op, what, where) {
    Arguments arguments;
    ArgumentFlattener<NoNames>(arguments, {}).argument("", s);
    set_key(arguments);
  }
  // Allows the sizes in LoopOptions::shapes to change. `s` is the state before the first step.
  // throws: kInvalidArgument for a path without a tensor in `s`, and for a shape that does not fit
  //   the tensor.
  template <class S>
  void open_sizes(const S& s, const std::map<std::string, Shape>& shapes) {
    if (shapes.empty()) return;
    ArgumentNames names;
    Arguments arguments;
    ArgumentFlattener<PathNames>(arguments, PathNames(names)).argument(what_, s);
    set_open(names.tensors, shapes);
  }
  // throws: kInvalidArgument, naming the first part of `s` that differs. In the message, `then`
  //   describes this structure ("before the first step"), and `now` describes `s`.
  template <class S>
  void require_same(const S& s, std::string_view then, std::string_view now) const {
    Arguments arguments;
    ArgumentFlattener<NoNames>(arguments, {}).argument("", s);
    if (key_.fits(arguments) || fits_open(arguments)) return;
    ArgumentNames names;
    Arguments again;
    ArgumentFlattener<PathNames>(again, PathNames(names)).argument(what_, s);
    throw_change(again, names, then, now);
  }

 private:
  StructureShape(std::string_view op, std::string_view what, CallSite where)
      : op_(op), what_(what), where_(where) {}
  void set_key(const Arguments& given);  // throws: kInvalidArgument for a Variable in a state
  [[noreturn]] void throw_change(const Arguments& found, const ArgumentNames& names,
                                 std::string_view then, std::string_view now) const;
  void set_open(const std::vector<std::string>& names, const std::map<std::string, Shape>& shapes);
  // Whether the only differences are sizes that may change.
  bool fits_open(const Arguments& found) const;

  std::string_view op_, what_;
  CallSite where_;
  TraceKey key_;
  std::map<std::size_t, Shape> open_;  // by tensor: its shape, with kAny for a size that may change
};

// Returns the tensors that are not absent. present_names() returns their names.
std::vector<Tensor> present_tensors(const Arguments& arguments);
std::vector<std::string> present_names(const Arguments& arguments, const ArgumentNames& names);
template <class S>
std::vector<Tensor> tensors_of(const S& s) {
  Arguments arguments;
  ArgumentFlattener<NoNames>(arguments, {}).argument("", s);
  return present_tensors(arguments);
}
// Replaces the present tensors of `s` by `from`, in order.
template <class S>
void put_tensors(S& s, std::span<const Tensor> from) {
  Arguments arguments;
  ArgumentFlattener<NoNames>(arguments, {}).argument("", s);
  std::size_t next = 0;
  for (Tensor* x : arguments.tensors) {
    if (x->has_value()) *x = from[next++];
  }
}
template <class S>
std::vector<std::string> tensor_names(std::string_view what, const S& s) {
  ArgumentNames names;
  Arguments arguments;
  ArgumentFlattener<PathNames>(arguments, PathNames(names)).argument(what, s);
  return present_names(arguments, names);
}

// While alive, a random draw on this thread derives its key from one key of the sequence, the
// number of the step, and the number of the draw in the step. So all forms of a loop draw the same
// numbers. If the sequence refuses draws, next_key() returns an absent key.
// threads: confined to its thread.
class StepKeys final : public KeySource {
 public:
  StepKeys() : base_(next_key_or_none()), scope_(this) {}
  // Begins a step: the condition or the body of a loop.
  void start(int64_t step, bool is_condition);
  Tensor next_key() override;
  // The key of the sequence; absent if draws are refused.
  const Tensor& base() const { return base_; }

 private:
  Tensor base_;
  Tensor of_step_;  // absent until the first draw
  int64_t step_ = -1, draws_ = 0;
  bool is_condition_ = false;
  KeyScope scope_;
};

// Whether a function is being traced. Control flow is then a node of its graph.
bool is_tracing() noexcept;
// Returns the value of a condition; std::nullopt if the value is not known before the graph runs.
// throws: kInvalidArgument unless the condition is a single bool.
std::optional<bool> bool_of(std::string_view op, const Tensor& condition, CallSite where);
// The same for an index. throws: kInvalidArgument unless it is a single integer; kOutOfRange.
std::optional<std::size_t> index_of(const Tensor& index, std::size_t branches, CallSite where);
// Returns the number of rows. throws: kInvalidArgument for no tensor, a scalar or unequal numbers.
int64_t count_rows(std::string_view op, std::span<const Tensor> xs,
                   std::span<const std::string> names, CallSite where);
// throws: kInvalidArgument for a max_iterations below 0.
void check_options(std::string_view op, const LoopOptions& options, CallSite where);

// A branch or a body. Takes placeholders of its arguments, and returns its results.
using TensorBody = FunctionRef<std::vector<Tensor>(std::span<const Tensor>)>;

// Traces branches one by one, then makes the call. Defined in control_flow.cc, like the loops.
class StagedSwitch {
 public:
  StagedSwitch(std::string_view op, const Tensor& key, CallSite where);
  StagedSwitch(const StagedSwitch&) = delete;
  StagedSwitch& operator=(const StagedSwitch&) = delete;
  ~StagedSwitch();
  void trace(const std::string& name, TensorBody branch);
  std::vector<Tensor> run(const Tensor& index);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The arguments that run_while() and run_scan() share.
struct StagedLoop {
  std::string_view op;
  std::vector<Tensor> carried;
  std::vector<std::string> names;  // of the carried tensors
  Tensor key;
  int64_t first_step = 0;
  CallSite where;
};
std::vector<Tensor> run_while(StagedLoop loop, const LoopOptions& options, TensorBody condition,
                              TensorBody body);
// Returns the carried values, then the stacked outputs of all steps.
std::vector<Tensor> run_scan(StagedLoop loop, std::span<const Tensor> rows, int64_t length,
                             TensorBody body);

// Returns the elements of a, then the elements of b.
std::vector<Tensor> joined(std::span<const Tensor> a, std::span<const Tensor> b);
// Whether a context may distinguish values by id, even values with equal elements.
bool follows_values() noexcept;
// Assigns a new id to each differentiable value: a state before a step, an output row, or a branch
// result. Cotangents are then summed in the same order as in a graph. A graph first sums the
// cotangents of the new value. It then adds the sum to the cotangent of the original value.
class OwnValues {
 public:
  explicit OwnValues(CallSite where) : where_(where) {}
  // A tensor that has not changed since the last call keeps its id.
  template <class S>
  void settle(S& s) {
    if (!follows_values()) return;
    std::vector<Tensor> xs = tensors_of(s);
    own(xs);
    put_tensors(s, xs);
  }
  // The same for a list of tensors, even if no context tracks values. For graphs.
  void own(std::vector<Tensor>& xs);

 private:
  CallSite where_;
  std::vector<uint64_t> ids_;  // of the tensors after the last call
};

template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;

// Calls f(state, x...). If f takes the elements of a std::tuple instead, unpacks the state.
template <class F, class S, class... X>
decltype(auto) call_on(F& f, S& state, const X&... x) {
  if constexpr (kIsTuple<std::remove_const_t<S>> && !std::is_invocable_v<F&, S&, const X&...>) {
    return std::apply([&](auto&... part) -> decltype(auto) { return call_owned(f, part..., x...); },
                      state);
  } else {
    return call_owned(f, state, x...);
  }
}
// Runs one step. The body returns the next state or changes its argument in place.
template <class F, class S, class... X>
void advance(F& body, S& state, const X&... x) {
  if constexpr (std::is_void_v<decltype(call_on(body, state, x...))>) {
    call_on(body, state, x...);
  } else {
    state = call_on(body, std::as_const(state), x...);
  }
}

template <class S>
constexpr void check_state() {
  static_assert(HasLeaf<S, Tensor, Marked::kVisit>::value,
                "etude: the state of a loop holds tensors: a loop in a graph carries nothing else");
  static_assert(!HasLeaf<S, Variable, Marked::kVisit>::value || holds_runtime_structure<S>(),
                "etude: the state of a loop is values; Variables are captured");
}

// The rows of the tensors of the pytree `xs`. at(i) returns the pytree of row i of each tensor.
template <class X>
class Rows {
 public:
  Rows(std::string_view op, const X& xs, CallSite where)
      : row_(xs),
        tensors_(tensors_of(xs)),
        count_(count_rows(op, tensors_, tensor_names("xs", xs), where)) {}
  int64_t count() const { return count_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  X& row() { return row_; }
  // Cuts the tensors into rows, for at(). Call OwnValues::settle() on the state first. The order
  // matters if one tensor is both the state and the rows. As in a graph, the reverse pass must add
  // the cotangents of the rows to the cotangent of this tensor before the cotangent of the state.
  void split();
  const X& at(int64_t i);

 private:
  X row_;
  std::vector<Tensor> tensors_;
  std::vector<Values> parts_;
  int64_t count_;
};
// Cuts each tensor into its rows. take_row() moves row i of each tensor out: call it once per row.
std::vector<Values> split_rows(std::span<const Tensor> xs);
std::vector<Tensor> take_row(std::vector<Values>& rows, int64_t i);

// Collects the output rows of all steps. stack() returns one result for each tensor of a row.
class StackedRows {
 public:
  StackedRows();
  StackedRows(const StackedRows&) = delete;
  StackedRows& operator=(const StackedRows&) = delete;
  ~StackedRows();
  void add(const std::vector<Tensor>& row);
  std::vector<Tensor> stack(CallSite where) const;

 private:
  std::vector<std::vector<Tensor>> rows_;  // by tensor
};

template <class X>
void Rows<X>::split() {
  if (count_ > 0) parts_ = split_rows(tensors_);
}

template <class X>
const X& Rows<X>::at(int64_t i) {
  put_tensors(row_, take_row(parts_, i));
  return row_;
}

template <class R, class Tuple>
struct BranchesGive;
template <class R, class... F>
struct BranchesGive<R, std::tuple<F...>> {
  template <class... X>
  static constexpr bool kWith =
      (std::is_same_v<R, std::decay_t<std::invoke_result_t<F, const X&...>>> && ...);
};

// Traces all branches, and makes the call. `names` are the names of the graphs, also in messages.
template <class R, class... F, class... X>
R stage_branches(std::string_view op, const Tensor& index, const StepKeys& keys, CallSite where,
                 const std::array<std::string, sizeof...(F)>& names, std::tuple<F...>& branches,
                 const X&... operands) {
  StagedSwitch call(op, keys.base(), where);
  std::vector<R> results;
  std::size_t at = 0;
  const auto trace = [&](auto& branch) {
    call.trace(names[at++], [&](std::span<const Tensor>) {
      return tensors_of(results.emplace_back(std::invoke(branch, operands...)));
    });
  };
  std::apply([&](auto&... branch) { (trace(branch), ...); }, branches);
  const StructureShape shape(op, "result", results[0], where);
  for (std::size_t i = 1; i < results.size(); ++i) {
    shape.require_same(results[i], "from branch '" + names[0] + "'",
                       "from branch '" + names[i] + "'");
  }
  R out = std::move(results[0]);
  put_tensors(out, call.run(index));
  return out;
}

// Runs branch number i.
template <class R, class Branches, class... X>
R run_branch(std::size_t i, CallSite where, Branches& branches, const X&... operands) {
  std::optional<R> out;
  std::size_t at = 0;
  const auto run = [&](auto& branch) {
    if (at++ == i) out.emplace(std::invoke(branch, operands...));
  };
  std::apply([&](auto&... branch) { (run(branch), ...); }, branches);
  OwnValues(where).settle(*out);
  return std::move(*out);
}

// The result of a branch that returns void.
struct Nothing {};
template <class F>
struct GivesNothing {
  F& f;
  template <class... X>
  Nothing operator()(const X&... x) const {
    std::invoke(f, x...);
    return {};
  }
};
template <class F>
struct GivesValue {
  F& f;
  template <class... X>
  owned_t<std::invoke_result_t<F&, const X&...>> operator()(const X&... x) const {
    return call_owned(f, x...);
  }
};
template <class... X, class F>
auto branch_of(F& f) {
  require_owned<F&, const X&...>();
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const X&...>>) {
    return GivesNothing<F>{f};
  } else {
    return GivesValue<F>{f};
  }
}

}  // namespace internal

// Returns then(operands...) if the predicate, a single bool, is true, else otherwise(operands...).
// Both return the same C++ type, or void. In a trace both results have tensors of the same types.
//
// The derivative is the derivative of the branch that ran. In a vmap with a predicate per example,
// each example runs only its own branch.
template <class Then, class Else, class... X>
auto cond(const Arg& predicate, Then&& then, Else&& otherwise, const X&... operands) {
  const Tensor choice = internal::materialize(predicate);
  const std::optional<bool> known = internal::bool_of("cond", choice, predicate.where());
  const internal::StepKeys keys;
  auto branches = std::tuple(internal::branch_of<X...>(otherwise), internal::branch_of<X...>(then));
  using R = std::decay_t<std::invoke_result_t<decltype(std::get<1>(branches)), const X&...>>;
  static_assert(internal::BranchesGive<R, decltype(branches)>::template kWith<X...>,
                "etude: cond: both branches must return values of one type: `return` the same "
                "struct in both");
  R out = known ? internal::run_branch<R>(*known ? 1 : 0, predicate.where(), branches, operands...)
                : internal::stage_branches<R>("cond", choice, keys, predicate.where(),
                                              {"else", "then"}, branches, operands...);
  if constexpr (!std::is_same_v<R, internal::Nothing>) return out;
}

// Returns the result of branch number `index` of a tuple of branches. All branches return the same
// C++ type, as in cond().
// throws: kOutOfRange for an index without a branch.
template <class... Branch, class... X>
auto switch_case(const Arg& index, std::tuple<Branch...> given, const X&... operands) {
  static_assert(sizeof...(Branch) > 0, "etude: switch_case: there is no branch to choose");
  const Tensor choice = internal::materialize(index);
  const std::optional<std::size_t> known =
      internal::index_of(choice, sizeof...(Branch), index.where());
  const internal::StepKeys keys;
  auto branches = std::apply(
      [](auto&... branch) { return std::tuple(internal::branch_of<X...>(branch)...); }, given);
  using R = std::decay_t<std::invoke_result_t<decltype(std::get<0>(branches)), const X&...>>;
  static_assert(internal::BranchesGive<R, decltype(branches)>::template kWith<X...>,
                "etude: switch_case: all branches must return values of one type: `return` the "
                "same struct in all");
  std::array<std::string, sizeof...(Branch)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = "branch" + std::to_string(i);
  R out = known ? internal::run_branch<R>(*known, index.where(), branches, operands...)
                : internal::stage_branches<R>("switch_case", choice, keys, index.where(), names,
                                              branches, operands...);
  if constexpr (!std::is_same_v<R, internal::Nothing>) return out;
}

// Applies body(state) as long as condition(state), a single bool, is true. Returns the last state.
// The body returns the next state or changes its argument: (S) -> S or (S&). A std::tuple state is
// unpacked for functions that take its elements. Types of tensors stay the same from step to step,
// except for the sizes that LoopOptions::shapes allows to change.
//
// Memory grows with the number of steps only while a derivative is taken in reverse mode. The
// reverse pass of a loop in a graph runs the loop forwards once more, then backwards. If the
// examples of a vmap need different numbers of steps, the examples run one by one.
template <class S, class Condition, class Body>
S while_loop(Condition&& condition, Body&& body, S init, const LoopOptions& options = {},
             CallSite where = CallSite::here()) {
  internal::check_state<S>();
  internal::check_options("while_loop", options, where);
  internal::StructureShape shape("while_loop", "state", init, where);
  shape.open_sizes(init, options.shapes);
  const auto require_same = [&](const S& state) {
    shape.require_same(state, "before the first step", "after a step");
  };
  internal::StepKeys keys;
  S state = std::move(init);
  internal::OwnValues own(where);
  own.settle(state);
  const int64_t last = options.max_iterations.value_or(INT64_MAX);
  int64_t step = 0;
  for (; !internal::is_tracing() && step < last; ++step) {
    keys.start(step, true);
    const Tensor says = internal::call_on(condition, std::as_const(state));
    const std::optional<bool> goes_on = internal::bool_of("while_loop", says, where);
    if (!goes_on) break;
    if (!*goes_on) return state;
    keys.start(step, false);
    internal::advance(body, state);
    require_same(state);
    own.settle(state);
  }
  if (step == last) return state;
  const internal::StagedLoop loop{"while_loop",
                                  internal::tensors_of(state),
                                  internal::tensor_names("state", state),
                                  keys.base(),
                                  step,
                                  where};
  const auto on_tensors = [&](std::span<const Tensor> given) {
    S now = state;
    internal::put_tensors(now, given);
    return now;
  };
  LoopOptions rest;
  if (options.max_iterations) rest.max_iterations = last - step;
  internal::put_tensors(state, internal::run_while(
                                   loop, rest,
                                   [&](std::span<const Tensor> given) {
                                     const S now = on_tensors(given);
                                     return std::vector<Tensor>{internal::call_on(condition, now)};
                                   },
                                   [&](std::span<const Tensor> given) {
                                     S now = on_tensors(given);
                                     internal::advance(body, now);
                                     require_same(now);
                                     return internal::tensors_of(now);
                                   }));
  return state;
}

// Calls body(state, x) for each row x of `xs` along axis 0, in order. The body returns a std::pair
// of the next state and an output row. scan() returns the last state and all output rows, stacked
// along a new axis 0. `xs` is a tensor, or a pytree of tensors with equal numbers of rows. If `xs`
// is a pytree, x is a pytree of rows.
template <class S, class X, class Body>
requires(
    !std::is_arithmetic_v<std::decay_t<Body>>)  // scan(steps, ...) on numbers is in diff/scan.h
    auto scan(Body&& body, S init, const X& xs, CallSite where = CallSite::here()) {
  using Row = std::decay_t<decltype(internal::call_on(body, std::as_const(init), xs).second)>;
  internal::check_state<S>();
  const internal::StructureShape shape("scan", "state", init, where);
  internal::StepKeys keys;
  internal::Rows<X> rows("scan", xs, where);
  const bool is_graph = internal::is_tracing() || rows.count() == 0;
  S state = std::move(init);
  internal::OwnValues own(where);
  own.settle(state);
  if (!is_graph) rows.split();
  std::optional<Row> of_all;
  if (is_graph) {
    const internal::StagedLoop loop{
        "scan", internal::tensors_of(state), internal::tensor_names("state", state), keys.base(), 0,
        where};
    const std::size_t carried = loop.carried.size();
    const std::vector<Tensor> out =
        internal::run_scan(loop, rows.tensors(), rows.count(), [&](std::span<const Tensor> given) {
          S before = state;
          internal::put_tensors(before, given.first(carried));
          internal::put_tensors(rows.row(), given.subspan(carried));
          auto [next, row] = internal::call_on(body, std::as_const(before), rows.row());
          shape.require_same(S(next), "before the first step", "after a step");
          const std::vector<Tensor> tensors = internal::tensors_of(S(std::move(next)));
          of_all.emplace(std::move(row));
          return internal::joined(tensors, internal::tensors_of(*of_all));
        });
    internal::put_tensors(state, {out.data(), carried});
    internal::put_tensors(*of_all, {out.data() + carried, out.size() - carried});
    return std::pair<S, Row>(std::move(state), std::move(*of_all));
  }
  internal::StackedRows results;
  std::optional<internal::StructureShape> row_shape;
  for (int64_t step = 0; step < rows.count(); ++step) {
    keys.start(step, false);
    auto [next, row] = internal::call_on(body, std::as_const(state), rows.at(step));
    state = S(std::move(next));
    shape.require_same(state, "before the first step", "after a step");
    own.settle(state);
    internal::OwnValues(where).settle(row);
    if (!row_shape) row_shape.emplace("scan", "row", row, where);
    row_shape->require_same(row, "after the first step", "after a later one");
    results.add(internal::tensors_of(row));
    if (!of_all) of_all.emplace(std::move(row));
  }
  internal::put_tensors(*of_all, results.stack(where));
  return std::pair<S, Row>(std::move(state), std::move(*of_all));
}

// A scan() without output rows: returns the last state. The body returns the next state or changes
// its argument: (S, x) -> S or (S&, x).
template <class S, class X, class Body>
S fold(Body&& body, S init, const X& xs, CallSite where = CallSite::here()) {
  internal::check_state<S>();
  const internal::StructureShape shape("fold", "state", init, where);
  internal::StepKeys keys;
  internal::Rows<X> rows("fold", xs, where);
  S state = std::move(init);
  internal::OwnValues own(where);
  own.settle(state);
  if (!internal::is_tracing()) rows.split();
  if (!internal::is_tracing()) {
    for (int64_t step = 0; step < rows.count(); ++step) {
      keys.start(step, false);
      internal::advance(body, state, rows.at(step));
      shape.require_same(state, "before the first step", "after a step");
      own.settle(state);
    }
    return state;
  }
  const internal::StagedLoop loop{
      "fold", internal::tensors_of(state), internal::tensor_names("state", state), keys.base(), 0,
      where};
  const std::size_t carried = loop.carried.size();
  internal::put_tensors(
      state,
      internal::run_scan(loop, rows.tensors(), rows.count(), [&](std::span<const Tensor> given) {
        S now = state;
        internal::put_tensors(now, given.first(carried));
        internal::put_tensors(rows.row(), given.subspan(carried));
        internal::advance(body, now, rows.row());
        shape.require_same(now, "before the first step", "after a step");
        return internal::tensors_of(now);
      }));
  return state;
}

}  // namespace etude
