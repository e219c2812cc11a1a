// SPDX-License-Identifier: Apache-2.0
// Estimates of the time of calls, by their bytes and operations. Measured on one AVX-512 thread;
// they decide about forks, and no bit depends on them.
#include "etude/plan/call_time.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/plan/plan.h"

namespace etude::internal {
namespace {

constexpr double kCallUs = 0.01;
constexpr double kBytesPerUs = 20e3;    // read and written, mostly in caches
constexpr double kScalarsPerUs = 5e3;   // functions of a scalar program on elements, in vectors
constexpr double kElementsPerUs = 1e3;  // of other kernels, as they estimate before they split
constexpr double kSplitUs = 30;         // by that estimate (device/cpu/parallel.h)

// The scalar program of an element-wise call, in its record or among its attributes; null: none.
const scalar::Program* program_of(const Graph::Node& node) {
  const OpDef& def = node.op.def();
  if (def.kind == Kind::kElementwise && def.scalar.program != nullptr) return def.scalar.program;
  for (const AttrValue& value : node.attrs.values()) {
    if (const auto* program = std::get_if<const ScalarDef*>(&value)) return (*program)->program;
  }
  return nullptr;
}

// Steps of a loop. The plans of its graphs were made when the call was prepared.
bool add_steps(const Graph::Node& node, CallTime& time) {
  const LoopDef& loop = node.op.def().loop;
  if (loop.facts == nullptr) return false;
  const LoopFacts facts = loop.facts(node.operands.size(), node.attrs);
  const auto steps = static_cast<double>(std::max<int64_t>(facts.least_steps, 1));
  const auto add = [&](const AttrObject* object) {
    const auto* graph = dynamic_cast<const Graph*>(object);
    if (graph == nullptr) return;
    const CallTime once = Plan::of(*graph)->time();
    time.alone += steps * once.alone;
    time.split += steps * once.split;
  };
  for (const std::string_view name : loop.graphs) {
    const AttrValue& value = node.attrs.value(name);
    if (const auto* one = std::get_if<RefPtr<const AttrObject>>(&value)) add(one->get());
    if (const auto* list = std::get_if<std::vector<RefPtr<const AttrObject>>>(&value)) {
      for (const auto& each : *list) add(each.get());
    }
  }
  return true;
}

}  // namespace

CallTime time_of(const Graph& graph, const Graph::Node& node, const Prepared& call) {
  CallTime time;
  if (call.view_of >= 0) return time;
  time.alone = kCallUs;
  if (estimate_call(call, time) || add_steps(node, time)) return time;
  int64_t bytes = 0, elements = 0;
  const auto add = [&](GraphValue v) {
    if (v == kNoValue || graph.type(v) == nullptr) return;
    bytes += graph.type(v)->bytes();
    elements = std::max(elements, graph.type(v)->count());
  };
  for (const GraphValue v : node.operands) add(v);
  for (uint32_t r = 0; r < node.results; ++r) add(node.first_result + r);
  const scalar::Program* const program = program_of(node);
  const double functions = program != nullptr ? program->size : 1;
  const auto count = static_cast<double>(elements);
  const double us =
      std::max(static_cast<double>(bytes) / kBytesPerUs, count * functions / kScalarsPerUs);
  (count * functions / kElementsPerUs < kSplitUs ? time.alone : time.split) += us;
  return time;
}

}  // namespace etude::internal
