// SPDX-License-Identifier: Apache-2.0
// Checks derivative rules against central differences. For tests of ops, custom gradients and whole
// programs. Slow by design.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct GradientCheckOptions {
  double step = 1e-4;
  double tolerance = 1e-5;  // maximum of |difference| / (1 + |numeric|)
  bool in_double = true;    // cast floating arguments to float64 or complex128 first
};

// Compares the gradient of the real part of the sum of f's result with central differences. Covers
// every element of every floating or complex argument. Returns "" if both agree. Otherwise returns
// a sentence that names the argument, the element and both numbers. As with tapes, a complex
// gradient is the conjugate of the analytic derivative.
//
//   EXPECT_EQ(check_gradient([](std::span<const Tensor> x) { return x[0] * x[1]; }, args), "");
//
// throws: the errors of f; kInvalidArgument if the result is neither floating nor complex.
// cost:   two runs of f per real element, four per complex element.
std::string check_gradient(const std::function<Tensor(std::span<const Tensor>)>& f,
                           std::span<const Tensor> arguments, GradientCheckOptions options = {});

}  // namespace etude
