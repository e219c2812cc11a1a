// SPDX-License-Identifier: Apache-2.0
// Ops that steer derivatives: a value under a new identity, and a value that carries none.
#include "etude/core/batching.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

Types same_type(const TypeCall& call) { return {call.types[0]}; }

}  // namespace

void define_gradient_ops(Registry& r) {
  r.define({
      .name = "identity",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "x as a value of its own: derivatives with respect to the result do not mean x.",
      .operands = {"x"},
      .dtypes = kAnyDType,
      .type = same_type,
      .kernel = [](const PrepareCall& call) { call.view(0); },
      .transpose = [](Operands, int, const Tensor& ct, const Attrs&) { return ct; },
      .batch = batching::same,
      .rewrites = {{.name = "identity_is_x",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = identity(x)\n"
                              "  return %1"}},
      .accepts_slices = 1,
      .samples = {.calls = {{{"[2,3]"}}}},
  });
  r.define({
      .name = "custom_rule",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "y, in a graph, where a custom_gradient made it of xs: its derivative by these can be "
             "taken inside of the function only, since graphs do not hold the rule.",
      .operands = {"y", {"xs...", kAnyDType}},
      .dtypes = kAnyDType,
      .type = same_type,
      .kernel = [](const PrepareCall& call) { call.view(0); },
      .batch = [](const BatchCall& call) -> Values { return {batching::leading(call, 0)}; },
      .rewrites = {{.name = "custom_rule_is_y",
                    .sample = "graph f(y: T[2,3], x: float32[2]) -> (T[2,3])\n"
                              "  %2 = custom_rule(y, x)\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[2,3]", "[3]", "int32[2]"}}}},
  });
  r.define({
      .name = "stop_gradient",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "x without its history: no derivative passes.",
      .operands = {"x"},
      .dtypes = kAnyDType,
      .type = same_type,
      .kernel = [](const PrepareCall& call) { call.view(0); },
      .batch = batching::same,
      .rewrites = {{.name = "stop_gradient_is_x",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = stop_gradient(x)\n"
                              "  return %1"}},
      .no_derivative = "stop_gradient lets none pass",
      .samples = {.calls = {{{"[2,3]"}}}},
  });
}

}  // namespace etude::ops
