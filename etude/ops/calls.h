// SPDX-License-Identifier: Apache-2.0
// What rules of ops call other ops by: run(op<"name">(), {&x}, {attributes}), and the helpers of
// core/builtin.h that leave out a call which changes nothing.
#pragma once

#include "etude/core/builtin.h"
#include "etude/core/run.h"

namespace etude::ops {

using internal::broadcasted;
using internal::op;
using internal::reshaped;
using internal::run;
using internal::run_all;

}  // namespace etude::ops
