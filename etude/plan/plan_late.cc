// SPDX-License-Identifier: Apache-2.0
// Runs that write over inputs, on devices with a queue. There a step may fail after later steps
// were enqueued. So a run waits for the values of the steps that can fail before it enqueues the
// steps that write over inputs.
#include <algorithm>
#include <map>

#include "etude/core/internal/device_table.h"
#include "etude/plan/plan.h"

namespace etude::internal {

// A step that can fail matters if its fault reaches a value that a later step reads, or an output.
void Plan::find_late_values(std::size_t safe) {
  if (donations_.empty()) return;
  std::map<GraphValue, Place> places;
  for (GraphValue v = 0; v < graph_->first_constant(); ++v) places[v] = {Home::kInput, v, 0};
  first_safe_ = steps_.size();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const GraphValue first = graph_->node(steps_[s].node).first_result;
    for (uint32_t r = 0; r < steps_[s].results; ++r) {
      places[first + r] = places_[steps_[s].first_place + r];
    }
    if (steps_[s].node >= safe) first_safe_ = std::min(first_safe_, s);
  }
  // A view has no step: the value that it shows is looked at.
  std::map<GraphValue, GraphValue> shown;
  for (std::size_t i = 0; i < safe; ++i) {
    const Graph::Node node = graph_->node(i);
    if (node.results != 1 || places.contains(node.first_result)) continue;
    for (const GraphValue v : node.operands) {
      if (v != kNoValue) shown.emplace(node.first_result, v);
    }
  }
  const GraphValue end = graph_->node(safe).first_result;
  const auto add = [&](GraphValue v) {
    if (v == kNoValue || v >= end) return;
    for (auto at = shown.find(v); at != shown.end(); at = shown.find(v)) v = at->second;
    DeviceMemory* const memory = memory_of(graph_->type(v)->device());
    const auto at = places.find(v);
    if (memory == nullptr || at == places.end()) return;  // a constant has no fault
    late_values_.push_back(
        {memory, at->second, static_cast<std::size_t>(graph_->type(v)->bytes())});
  };
  for (std::size_t i = safe; i < graph_->size(); ++i) {
    for (const GraphValue v : graph_->node(i).operands) add(v);
  }
  for (const GraphValue v : graph_->outputs()) add(v);
}

const Plan::Step* Plan::run_in_two(const Frame& frame, Operands inputs, const Values& made) const {
  if (const Step* const failed = run_range(frame, 0, first_safe_)) return failed;
  for (const LateValue& value : late_values_) {
    const Place& place = value.place;
    const void* const start =
        place.home == Home::kInput    ? TensorAccess::rep(inputs[place.index])->data
        : place.home == Home::kOutput ? TensorAccess::rep(made[place.index])->data
                                      : frame.arenas[place.index]->data;
    value.memory->wait_for(static_cast<const char*>(start) + place.offset, value.bytes);
  }
  return run_range(frame, first_safe_, steps_.size());
}

}  // namespace etude::internal
