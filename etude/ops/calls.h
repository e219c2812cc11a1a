// SPDX-License-Identifier: Apache-2.0
// Calls of ops by rules of other ops: run(op<"name">(), {&x}, {attributes}), and the helpers of
// core/call/builtin.h, which omit calls that change nothing.
#pragma once

#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"

namespace etude::ops {

using internal::broadcasted;
using internal::op;
using internal::reshaped;
using internal::run;
using internal::run_all;

}  // namespace etude::ops
