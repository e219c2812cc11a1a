// SPDX-License-Identifier: Apache-2.0
// What all losses do around their terms. Used by losses.cc and more_losses.cc.
#pragma once

#include <optional>

#include "etude/base/function_ref.h"
#include "etude/core/arg.h"
#include "etude/core/tensor.h"
#include "etude/nn/losses.h"
#include "etude/ops.h"

namespace etude::nn::detail {

using LossTerms = etude::internal::FunctionRef<Tensor(const Tensor& p, const Tensor& e)>;

// The sum over the last axis.
inline Tensor last_sum(const Tensor& x) { return sum(x, {.axis = -1}); }

// Computes the terms and reduces them, by `otherwise` unless a reduction is given; errors get the
// name of the loss and the caller's line.
Tensor run_loss(const char* name, const Arg& predicted, const Arg& expected,
                const std::optional<Reduction>& reduction, const char* otherwise,
                const Tensor& weights, LossTerms terms);

}  // namespace etude::nn::detail
