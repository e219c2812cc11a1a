// SPDX-License-Identifier: Apache-2.0
// Ops that steer derivatives: a value under a new identity, and a value that carries none.
#include "etude/core/call/graph_calls.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/batching.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"
#include "etude/ops/records.h"

namespace etude::ops {

void define_gradient_ops(Registry& r) {
  r.define({
      .name = "identity",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "x as a value of its own: derivatives with respect to the result do not mean x.",
      .operands = {"x"},
      .dtypes = kAnyDType,
      .type = same_type,
      .kernels = {.cpu = [](const PrepareCall& call) { call.view(0); }},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs&) {
            return internal::mode_word == 0 ? ct : internal::identity(ct);
          },
      .batch = batching::same,
      .rewrites = {{.name = "identity_is_x",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = identity(x)\n"
                              "  return %1"}},
      .accepts_slices = 1,
      .samples = {.calls = {{{"[2,3]"}}}},
  });
  r.define({
      .name = "after",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "x, once the others are known: calls on it are not those on x, so that what is "
             "computed again is not taken from the first time.",
      .operands = {"x", {"others...", kAnyDType}},
      .dtypes = kAnyDType,
      .type = same_type,
      .kernels = {.cpu = [](const PrepareCall& call) { call.view(0); }},
      .vjp =
          [](const VjpCall& call) {
            Values out(call.in.size());
            out[0] = call.ct();
            return out;
          },
      .jvp = [](const JvpCall& call) -> Values { return {call.tangents[0]}; },
      // An x that is no batch stays one value for all examples.
      .batch = [](const BatchCall& call) -> Values {
        const Tensors operands = list_of(call.in);
        return {internal::after(operands[0], std::span(operands).subspan(1))};
      },
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
      .kernels = {.cpu = [](const PrepareCall& call) { call.view(0); }},
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
