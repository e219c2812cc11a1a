// SPDX-License-Identifier: Apache-2.0
// Adam, AdamW and AMSGrad: steps scaled by running means of gradients and of their squares.
#pragma once

#include "etude/optim/internal/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

namespace internal {

// Calls row(name, option, range) for the options that Adam and related rules share. O must have
// these options.
template <class O>
constexpr void adam_ranges(const auto& row) {
  row("lr", &O::lr, at_least(0));
  row("beta1", &O::beta1, up_to(0, 1));
  row("beta2", &O::beta2, up_to(0, 1));
  row("eps", &O::eps, at_least(0));
}
template <class O>
constexpr void decaying_adam_ranges(const auto& row) {
  adam_ranges<O>(row);
  row("decay", &O::decay, at_least(0));
  row("weight_decay", &O::weight_decay, at_least(0));
}

}  // namespace internal

struct AdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;         // lr / (1 + decay * updates done)
  double weight_decay = 0;  // weight_decay * parameter is added to the gradient
  bool amsgrad = false;     // divide by the root of the highest v so far

  static constexpr void ranges(const auto& option) {
    internal::decaying_adam_ranges<AdamOptions>(option);
  }
};

// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
// w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
class Adam : public internal::OptimizerWith<AdamOptions> {
 public:
  // throws: kInvalidArgument for an option out of its range.
  explicit Adam(AdamOptions options = {}, CallSite where = CallSite::here())
      : Adam("Adam", std::move(options), false, where) {}

  using OptimizerWith::options;
  // All options except amsgrad may change between updates.
  AdamOptions& options() { return options_; }

 protected:
  Adam(std::string_view optimizer, AdamOptions options, bool decoupled, CallSite where);

 private:
  ETUDE_FIELDS(Adam, slots_);
};

struct AdamWOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0.01;  // w -= lr weight_decay w, before the step of Adam
  bool amsgrad = false;

  static constexpr void ranges(const auto& option) {
    internal::decaying_adam_ranges<AdamWOptions>(option);
  }
};

// Adam with decoupled weight decay.
class AdamW : public Adam {
 public:
  explicit AdamW(AdamWOptions options = {}, CallSite where = CallSite::here())
      : Adam("AdamW",
             {.lr = std::move(options.lr),
              .beta1 = options.beta1,
              .beta2 = options.beta2,
              .eps = options.eps,
              .decay = options.decay,
              .weight_decay = options.weight_decay,
              .amsgrad = options.amsgrad},
             true, where) {}

 private:
  ETUDE_FIELDS(AdamW, slots_);
};

}  // namespace optim
}  // namespace etude
