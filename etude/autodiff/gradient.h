// SPDX-License-Identifier: Apache-2.0
// All differential operators, for tensors, Variables, numbers and structures of these.
#pragma once

#include "etude/autodiff/batch.h"
#include "etude/autodiff/mixed_operators.h"
#include "etude/autodiff/tensor_gradient.h"
#include "etude/autodiff/tensor_operators.h"
