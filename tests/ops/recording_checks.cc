// SPDX-License-Identifier: Apache-2.0
// Calls and gradients that are recorded and replayed, on the same and on other operands.
// spec: CG-11.a
#include <fmt/format.h>

#include "tests/ops/checks.h"
#include "tests/recording.h"

namespace etude::matrix {
namespace {

// Operands that are there; absent ones cannot be inputs of a recording.
std::vector<Tensor> present(const Call& call) {
  std::vector<Tensor> out;
  for (const Tensor& x : call.operands) {
    if (x.has_value()) out.push_back(x);
  }
  return out;
}

void check_gradients(const Call& call, const Call& other) {
  const std::vector<Tensor> u = cotangents(call, run(call));
  const std::vector<Tensor> want = gradients(call, u);
  tests::RecordingContext context(present(call));
  const std::vector<Tensor> seen = gradients(call, u);
  const tests::Recording recording = context.finish(seen);
  compare_lists(call, "gradient while recording", seen, want);
  compare_lists(call, "gradient replayed", recording.replay(present(call)), want);
  compare_lists(call, "gradient replayed on other values", recording.replay(present(other)),
                gradients(other, u));
}

}  // namespace

void check_recording(const Call& call) {
  const Values want = run(call);
  tests::RecordingContext context(present(call));
  const Values seen = run(call);
  const tests::Recording recording = context.finish({seen.data(), seen.size()});
  compare_lists(call, "recording", std::vector<Tensor>(seen.begin(), seen.end()),
                {want.data(), want.size()});
  compare_lists(call, "replay", recording.replay(present(call)), {want.data(), want.size()});
  const Call& other = call_of_seed(call, 1);
  const Values elsewhere = run(other);
  compare_lists(call, "replay on other values", recording.replay(present(other)),
                {elsewhere.data(), elsewhere.size()});
  if (!call.op->is_differentiable() || call.op->def().data != nullptr) return;
  check_gradients(call, other);
}

}  // namespace etude::matrix
