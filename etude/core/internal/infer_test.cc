// SPDX-License-Identifier: Apache-2.0
// The checks of operands before a rule runs.
#include "etude/core/internal/infer.h"

#include <gtest/gtest.h>

#include "etude/core/internal/device_table.h"
#include "etude/core/op/registry.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

const Op& joined_op() {
  static Registry& registry = *new Registry;
  static const Op& op = registry.define({
      .name = "joined",
      .doc = "A record whose rule looks at nothing.",
      .operands = {"x", "ys..."},
      .type = [](const TypeCall& call) { return Types{call.types[0]}; },
      .kernels = {.cpu = [](const PrepareCall&) {}},
  });
  return op;
}

Types types_of(std::vector<const Type*> operands) {
  return infer_types(joined_op(), operands, joined_op().default_attrs());
}

TEST(Infer, RulesSeeNumbersOnly) {
  const Type* known = intern_type(kFloat32, {2});
  EXPECT_EQ(types_of({known, nullptr, known})[0], known);
  expect_error(
      [&] {
        types_of({known, intern_type(kFloat32, {2, kAny})});
      },
      ErrorCode::kInvalidArgument,
      {"element 0 of 'ys' is float32[2,?], but operands have sizes that are known"});
}

TEST(Infer, OperandsOfACallLieOnOneDevice) {
  const Type* here = intern_type(kFloat32, {2});
  const Type* there = intern_type(kFloat32, {2}, internal::device_called("gpu:1"));
  EXPECT_EQ(types_of({there, there})[0], there);
  expect_error(
      [&] {
        types_of({here, there});
      },
      ErrorCode::kInvalidArgument,
      {"element 0 of 'ys' is on gpu:1, but an operand before it is on cpu:0"});
}

}  // namespace
}  // namespace etude
