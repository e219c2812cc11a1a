// SPDX-License-Identifier: Apache-2.0
// Reading and assigning a Variable, as calls. Updates such as assign_add are a read, the op of the
// update, and an assignment. In a graph both are gone; read_assigned stays where a read follows an
// assignment.
#include "etude/base/check.h"
#include "etude/core/context/resource.h"
#include "etude/core/op/batching.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/variables/variable.h"

namespace etude::ops {
namespace {

Types type_of_value(const TypeCall& call) { return {call.types[call.types.size() - 1]}; }

// A graph has one input for a Variable, and so one gradient: the gradient of all reads of this
// type.
Values vjp_of_read(const VjpCall& call) {
  Values out(2);
  if (call.in[1].type() == call.in[0].type()) out[1] = call.ct();
  return out;
}

Values jvp_of_read(const JvpCall& call) {
  return {call.in[1].type() == call.in[0].type() ? call.tangents[1] : Tensor()};
}

}  // namespace

void define_variables(Registry& r) {
  r.define({
      .name = "read_variable",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "What a Variable holds.",
      .operands = {{"variable", kAnyDType}},
      .type = type_of_value,
      .data = [](Operands in, const Attrs&) -> Values {
        return {internal::peek(internal::variable_of(in[0]))};
      },
      .effect = Effect::kReads,
      .no_derivative = "a tape watches what is read",
  });
  r.define({
      .name = "assign_variable",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Gives a Variable another value, which is the result.",
      .operands = {{"variable", kAnyDType}, {"x", kAnyDType}},
      .type = type_of_value,
      .data = [](Operands in, const Attrs&) -> Values {
        return {internal::assign_now(internal::variable_of(in[0]), in[1])};
      },
      .effect = Effect::kWrites,
      .no_derivative = "no derivative passes through an assignment",
  });
  r.define({
      .name = "read_assigned",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "x, which was assigned to a Variable that held `before`. No derivative passes to x; "
             "the gradient is that of the Variable.",
      .operands = {{"x", kAnyDType}, {"before", kAnyDType}},
      .type = [](const TypeCall& call) -> Types { return {call.types[0]}; },
      .kernels = {.cpu = [](const PrepareCall& call) { call.view(0); }},
      .vjp = vjp_of_read,
      .jvp = jvp_of_read,
      .batch = [](const BatchCall& call) -> Values {
        return {internal::read_assigned(batching::leading(call, 0), batching::leading(call, 1))};
      },
      .rewrites = {{.name = "read_assigned_is_x",
                    .sample = "graph f(x: T[2,3], before: T[2,3]) -> (T[2,3])\n"
                              "  %1 = read_assigned(x, before)\n"
                              "  return %1"}},
      .samples = {.calls = {{{"[2,3]", "[2,3]"}}},
                  .no_gradient_check = "the value is that of x, the derivative that of `before`"},
  });
}

}  // namespace etude::ops
