// SPDX-License-Identifier: Apache-2.0
// Models in inference with batch normalisation, and gradients of losses: functions of weights and
// data that return a loss and the cotangents of all weights.
#pragma once

#include "tests/onnx/cases.h"

namespace etude::stablehlo_cases {

void add_gradient_cases(onnx_cases::Cases& to);

}  // namespace etude::stablehlo_cases
