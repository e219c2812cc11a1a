// SPDX-License-Identifier: Apache-2.0
// Derivatives in plain C++, of functions of numbers and of containers and structs of numbers.
// Header-only: needs neither the compiled library nor tensors. Included by etude.h.
//
//   auto [value, slope] = value_with_gradient([](auto x) { return x * sin(x); }, 2.0);
#pragma once

// Headers with static assertions come first. Before an error, compilers print the chain of
// includes. This order keeps the chain short.
// clang-format off
#include "etude/base/scalars/expression.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/diff/internal/explain_type.h"
#include "etude/diff/internal/function_checks.h"
#include "etude/diff/internal/scan/scan_checks.h"
// clang-format on

#include "etude/diff/any_differentiable.h"
#include "etude/diff/custom_gradient.h"
#include "etude/diff/derivative.h"
#include "etude/diff/differentiable.h"
#include "etude/diff/function_values.h"
#include "etude/diff/scalar_operators.h"
#include "etude/diff/scan.h"
#include "etude/diff/windows.h"
