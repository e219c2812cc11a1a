// SPDX-License-Identifier: Apache-2.0
// The part of losses that all share: checks, weights and reduction of their terms. Used by
// losses.cc and task_losses.cc.
#pragma once

#include <optional>

#include "etude/base/internal/function_ref.h"
#include "etude/core/call/arg.h"
#include "etude/core/tensor.h"
#include "etude/nn/losses/losses.h"
#include "etude/ops.h"

namespace etude::nn::internal {

using LossTerms = etude::internal::FunctionRef<Tensor(const Tensor& p, const Tensor& e)>;

// The sum over the last axis.
inline Tensor last_sum(const Tensor& x) { return sum(x, {.axis = -1}); }

// The second operand of a loss. kPairs: numbers, and one of the two shapes broadcasts to the other.
// kLabels: labels, which the function of the terms checks.
enum class Expects : unsigned char { kPairs, kLabels };

// Computes the terms and reduces them by `reduction`, or by `otherwise` if it is absent. Adds the
// name of the loss and the caller's line to errors.
Tensor run_loss(const char* name, const Arg& predicted, const Arg& expected,
                const std::optional<Reduction>& reduction, const char* otherwise,
                const Tensor& weights, LossTerms terms, Expects expects = Expects::kPairs);

// throws: kInvalidArgument unless x broadcasts to the shape of the terms.
void require_for_terms(const char* operand, const Tensor& x, const Tensor& terms);

}  // namespace etude::nn::internal
