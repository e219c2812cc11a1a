// SPDX-License-Identifier: Apache-2.0
// Calls as parts of runs of element-wise nodes, at each tier: on tiles, and as machine code of both
// kinds (kernels/cpu/fused_program.h). All give the bits of the calls one by one.
#include <fmt/format.h>

#include "etude/core/builtin.h"
#include "etude/kernels/cpu/fused_program.h"
#include "etude/passes/pipeline.h"
#include "etude/runtime/graph_derivatives.h"
#include "tests/ops/checks.h"
#include "tests/same_numbers.h"

namespace etude::matrix {
namespace {

// The results of the call, with two more calls behind each that are numbers.
std::vector<Tensor> with_calls_behind(std::span<const Tensor> results) {
  std::vector<Tensor> out;
  for (const Tensor& y : results) {
    const bool goes_on = y.has_value() && y.dtype() == kFloat32;
    out.push_back(goes_on ? internal::add(internal::negative(y), y) : y);
  }
  return out;
}

// Whether the record says that the call and what is behind it are one run.
bool is_run(const Call& call, const Values& results) {
  const OpDef& def = call.op->def();
  if (def.kind != Kind::kElementwise || def.casts_integers || def.kernels.cpu != nullptr)
    return false;
  for (const Tensor& x : call.operands) {
    const bool is_truth = x.has_value() && x.dtype() == kBool;
    if (!x.has_value() || (x.dtype() != kFloat32 && !is_truth)) return false;
  }
  return results[0].dtype() == kFloat32;
}

// While it lives, kernels are made for this tier.
class TierScope {
 public:
  explicit TierScope(int tier) { kernels::cpu::fix_tier(tier); }
  ~TierScope() { kernels::cpu::fix_tier(saved_); }

 private:
  int saved_ = kernels::cpu::fixed_tier();
};

}  // namespace

void check_tiers(const Call& call) {
  if (has_data_sizes(call)) return;
  const std::vector<Tensor> inputs = inputs_of(call);
  const GraphRef alone = graph_of(call);
  const Values results = dense_results(call);
  const std::vector<Tensor> want = with_calls_behind({results.data(), results.size()});
  for (int tier = 0; tier < 3; ++tier) {
    const TierScope scope(tier);
    // A graph of its own, as it keeps its plan.
    const GraphRef graph =
        internal::make_graph(alone->name(), alone->inputs(), [&](std::span<const Tensor> in) {
          const std::vector<Tensor> y = interpret(*alone, in);
          return with_calls_behind(y);
        });
    const std::vector<Tensor> got = run_plan(*graph, inputs);
    for (std::size_t i = 0; i < want.size(); ++i) {
      expect(testing::same_numbers(got.at(i), want[i]), call.label(fmt::format("tier {}", tier)),
             [&] { return fmt::format("got {}, want {}", show(got[i]), show(want[i])); });
    }
    if (tier > 0 || !is_run(call, results)) continue;
    const std::size_t nodes = run_passes(*graph)->size();
    expect(nodes == 1, call.label("fused"), [&] { return fmt::format("{} nodes, want 1", nodes); });
  }
}

}  // namespace etude::matrix
