// SPDX-License-Identifier: Apache-2.0
// Differential operators on functions of numbers, and of structs, arrays and containers of numbers.
#pragma once

#include "etude/diff/forward_operators.h"
#include "etude/diff/jacobians.h"
#include "etude/diff/scalar_gradient.h"
