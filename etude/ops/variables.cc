// SPDX-License-Identifier: Apache-2.0
// Reading and assigning a Variable, as calls. Updates such as assign_add are a read, the op of the
// update, and an assignment.
#include "etude/base/check.h"
#include "etude/core/resource.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/runtime/variable.h"

namespace etude::ops {
namespace {

Types type_of_value(const TypeCall& call) { return {call.types[call.types.size() - 1]}; }

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
}

}  // namespace etude::ops
