// SPDX-License-Identifier: Apache-2.0
// Calls as parts of runs of element-wise nodes, at each tier: on tiles, and as machine code of both
// kinds (kernels/cpu/elementwise/fused_program.h); and as parts of clusters (plan/cluster.h). All
// give the bits of the calls one by one.
#include <algorithm>

#include <fmt/format.h>

#include "etude/codegen/compile.h"
#include "etude/core/call/builtin.h"
#include "etude/kernels/cpu/elementwise/fused_program.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/cluster_code.h"
#include "etude/stage/make_graph.h"
#include "tests/ops/checks.h"
#include "tests/same_numbers.h"
#include "tests/tier_scope.h"

namespace etude::matrix {
namespace {

using internal::Tier;

// The results of the call, with two more calls on each float32 result.
std::vector<Tensor> with_calls_behind(std::span<const Tensor> results) {
  std::vector<Tensor> out;
  for (const Tensor& y : results) {
    const bool goes_on = y.has_value() && y.dtype() == kFloat32;
    out.push_back(goes_on ? internal::add(internal::negative(y), y) : y);
  }
  return out;
}

// Whether, by its record, the call and the two calls after it are one run.
bool is_run(const Call& call, const Values& results) {
  const OpDef& def = call.op->def();
  if (def.kind != Kind::kElementwise || def.kernels.cpu != nullptr) return false;
  for (const Tensor& x : call.operands) {
    const bool is_bool = x.has_value() && x.dtype() == kBool;
    if (!x.has_value() || (x.dtype() != kFloat32 && !is_bool)) return false;
  }
  return results[0].dtype() == kFloat32;
}

bool is_small(const Tensor& x) {
  return x.has_value() && x.type()->count() >= 1 &&
         x.type()->count() <= static_cast<int64_t>(internal::Cluster::kMostElements);
}

// The call and the two calls after it without fusion, as a cluster: machine code without memory in
// between.
void check_cluster(const Call& call, const GraphRef& graph, const std::vector<Tensor>& inputs,
                   const Values& results, std::span<const Tensor> want) {
  const tests::TierScope scope(Tier::kBest);
  const PassScope apart("fuse_elementwise");
  [[maybe_unused]] const uint64_t before = internal::ClusterCode::runs();
  const std::vector<Tensor> got = run_plan(*graph, inputs);
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect(tests::same_numbers(got.at(i), want[i]), call.label("cluster"),
           [&] { return fmt::format("got {}, want {}", show(got[i]), show(want[i])); });
  }
#ifdef ETUDE_ASSERTIONS
  const bool is_one = is_run(call, results) && is_small(results[0]) &&
                      std::ranges::all_of(call.operands, is_small) && codegen::is_available();
  const uint64_t runs = internal::ClusterCode::runs() - before;
  expect(!is_one || runs == 1, call.label("cluster"),
         [&] { return fmt::format("{} clusters ran, want 1", runs); });
#else
  static_cast<void>(results);
#endif
}

}  // namespace

void check_tiers(const Call& call) {
  if (has_data_sizes(call)) return;
  const std::vector<Tensor> inputs = inputs_of(call);
  const GraphRef alone = graph_of(call);
  const Values results = dense_results(call);
  const std::vector<Tensor> want = with_calls_behind({results.data(), results.size()});
  // Of its own for each plan, as a graph keeps its one.
  const auto make = [&] {
    return internal::make_graph(alone->name(), alone->inputs(), [&](std::span<const Tensor> in) {
      const std::vector<Tensor> y = interpret(*alone, in);
      return with_calls_behind(y);
    });
  };
  check_cluster(call, make(), inputs, results, want);
  for (const Tier tier : {Tier::kNone, Tier::kFast, Tier::kBest}) {
    const tests::TierScope scope(tier);
    const GraphRef graph = make();
    const std::vector<Tensor> got = run_plan(*graph, inputs);
    for (std::size_t i = 0; i < want.size(); ++i) {
      expect(tests::same_numbers(got.at(i), want[i]),
             call.label(fmt::format("tier {}", static_cast<int>(tier))),
             [&] { return fmt::format("got {}, want {}", show(got[i]), show(want[i])); });
    }
    if (tier != Tier::kNone || !is_run(call, results)) continue;
    const std::size_t nodes = run_passes(*graph)->size();
    expect(nodes == 1, call.label("fused"), [&] { return fmt::format("{} nodes, want 1", nodes); });
  }
}

}  // namespace etude::matrix
