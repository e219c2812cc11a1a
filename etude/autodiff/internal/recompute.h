// SPDX-License-Identifier: Apache-2.0
// recompute_grad (diff/custom_gradient.h) on tensors: a function runs, and is replayed when a
// cotangent arrives.
#pragma once

#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/autodiff/internal/captures.h"
#include "etude/autodiff/internal/custom_rule.h"
#include "etude/autodiff/internal/state_box.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/variables/internal/variable_replay.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The inputs of a run of a function besides host values. A replay gets all of them again.
struct RunRecord {
  explicit RunRecord(const LeafList& of) : arguments(tensors_of(of)) {}
  // Arguments, values of Variables and captures, in this order: the inputs of the rule.
  std::vector<Tensor> inputs() const;
  // The tensors among leaves, dense; absent for a Variable.
  static std::vector<Tensor> tensors_of(const LeafList& leaves);

  std::vector<Tensor> arguments;
  std::vector<VariableUse> variables;
  std::vector<Tensor> captures;
  std::vector<Tensor> keys;
  std::vector<StateUse> states;
  Phase phase = ambient().phase;
  std::optional<Device> device = current_device();  // of the DeviceScope
};

// While alive, the function runs for the first time, recorded by no tape.
// threads: confined to its thread.
class RecordedRun {
 public:
  explicit RecordedRun(RunRecord& record);
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;
  // To be called when the function has returned `results`.
  void finish(const LeafList& results);

 private:
  RunRecord& record_;
  UntapedScope untaped_;
  KeyRecord keys_;
  VariableHistory history_;
  StateHistory states_;
  CaptureList captures_;
};

// While alive, the function runs again for the cotangents `dy` of its results; sparse cotangents
// are made dense, as in a graph.
// threads: confined to its thread.
class RepeatedRun {
 public:
  RepeatedRun(const RunRecord& record, std::span<const Tensor> dy);
  RepeatedRun(const RepeatedRun&) = delete;
  RepeatedRun& operator=(const RepeatedRun&) = delete;
  // The values for the leaves of its arguments.
  const std::vector<Tensor>& arguments() const { return record_.arguments; }
  // The gradients of RunRecord::inputs().
  std::vector<Tensor> gradients(const LeafList& results);

 private:
  RunRecord record_;  // with the values of this run
  std::vector<Tensor> first_inputs_;
  std::vector<Tensor> dy_;
  KeyReplay keys_{record_.keys};
  PhaseScope phase_{record_.phase};
  std::optional<DeviceScope> place_;
  StateReplay states_{record_.states};
  VariableReplay variables_{record_.variables};
  GradientTape tape_{{.watch_variables = false}, {}};
};

// The tensors of arguments or results; a Variable is read.
std::vector<Tensor> values_of(const LeafList& leaves);

// Replaces leaves by tensors, in the order of LeafList.
struct PutLeaves {
  void operator()(Tensor& leaf) { leaf = std::move(items[next++]); }
  void operator()(Variable&) { ++next; }
  template <class T>
  void operator()(T& x) {
    if constexpr (TensorManifold<T>) each_tensor_of(x, *this);
  }
  std::vector<Tensor> items;
  std::size_t next = 0;
};

// Runs f without tapes. The tape keeps the inputs, and runs f again when a cotangent arrives.
template <class F, class... X>
auto run_recomputed(const F& f, const X&... x) {
  using R = std::decay_t<decltype(call_owned(f, x...))>;
  const std::tuple<const X&...> arguments(x...);
  RunRecord record{LeafList(arguments)};
  R value = [&] {
    RecordedRun run(record);
    R made = call_owned(f, x...);
    run.finish(LeafList(made));
    return made;
  }();
  RuleCall call{.inputs = record.inputs(),
                .results = values_of(LeafList(value)),
                .name = "recompute_grad",
                .is_for_forward = false,
                .warns_of_missing = false};
  if (!is_followed(call)) return value;
  call.pullback = [f, record = std::move(record),
                   held = std::tuple<X...>(x...)](std::span<const Tensor> dy) {
    RepeatedRun run(record, dy);
    std::tuple<X...> again = held;
    PutLeaves same{run.arguments()};
    each_leaf(again, same);
    const R result = std::apply([&](const auto&... a) { return call_owned(f, a...); }, again);
    return run.gradients(LeafList(result));
  };
  PutLeaves put{attach_rule(call)};
  each_leaf(value, put);
  return value;
}

}  // namespace internal
}  // namespace etude
