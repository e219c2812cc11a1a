// SPDX-License-Identifier: Apache-2.0
// Optimisers that step along the gradient, its sign or its running mean: Lion, Rprop, ASGD and
// schedule-free SGD. SGD itself: sgd.h.
#pragma once

#include <string_view>

#include "etude/optim/internal/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// Constructors throw kInvalidArgument for an option out of its range.

struct LionOptions {
  Schedule lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled

  static constexpr void ranges(const auto& option) {
    option("lr", &LionOptions::lr, at_least(0));
    option("beta1", &LionOptions::beta1, up_to(0, 1));
    option("beta2", &LionOptions::beta2, up_to(0, 1));
    option("weight_decay", &LionOptions::weight_decay, at_least(0));
  }
};
// w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w);  m = beta2 m + (1 - beta2) g.
class Lion : public internal::OptimizerWith<LionOptions> {
 public:
  explicit Lion(LionOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(Lion, slots_);
};

struct RpropOptions {
  double lr = 0.01;     // initial step size; scale_rate() has no effect
  double shrink = 0.5;  // factor of the step size when the gradient changes sign
  double grow = 1.2;    // factor of the step size when the gradient keeps its sign
  double min_size = 1e-6;
  double max_size = 50;

  static constexpr void ranges(const auto& option) {
    option("lr", &RpropOptions::lr, above(0));
    option("shrink", &RpropOptions::shrink, within(0, 1));
    option("grow", &RpropOptions::grow, at_least(1));
    option("min_size", &RpropOptions::min_size, at_least(0));
    option("max_size", &RpropOptions::max_size, above(0));
  }
};
// Uses only the sign of the gradient. Each element has a step size of its own. If the gradient of
// an element changes sign, the step size shrinks and the step is skipped (Riedmiller and Braun
// 1993). Use full batches.
class Rprop : public internal::OptimizerWith<RpropOptions> {
 public:
  explicit Rprop(RpropOptions options = {}, CallSite where = CallSite::here());

 private:
  const Schedule& schedule() const override { return lr_; }
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;

  Schedule lr_;  // the option lr
  ETUDE_FIELDS(Rprop, slots_);
};

struct ASGDOptions {
  Schedule lr = 1e-2;
  double lambda = 1e-4;  // decay of the weights
  double alpha = 0.75;   // exponent of the decay of the rate
  double start = 1e6;    // number of updates before averaging starts
  double weight_decay = 0;

  static constexpr void ranges(const auto& option) {
    option("lr", &ASGDOptions::lr, at_least(0));
    option("lambda", &ASGDOptions::lambda, at_least(0));
    option("alpha", &ASGDOptions::alpha, at_least(0));
    option("start", &ASGDOptions::start, at_least(0));
    option("weight_decay", &ASGDOptions::weight_decay, at_least(0));
  }
};
// Averaged SGD (Polyak and Juditsky 1992): e = lr / (1 + lambda lr (t - 1))^alpha;
// w = (1 - lambda e) w - e (g + weight_decay w). averaged(model, "average") returns the mean of the
// weights since update start + 2, counted from 1. Before this update the result is w.
class ASGD : public internal::OptimizerWith<ASGDOptions> {
 public:
  explicit ASGD(ASGDOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;

  ETUDE_FIELDS(ASGD, slots_);
};

struct ScheduleFreeSGDOptions {
  Schedule lr = 1;
  double beta = 0.9;
  double weight_decay = 0;

  static constexpr void ranges(const auto& option) {
    option("lr", &ScheduleFreeSGDOptions::lr, at_least(0));
    option("beta", &ScheduleFreeSGDOptions::beta, up_to(0, 1));
    option("weight_decay", &ScheduleFreeSGDOptions::weight_decay, at_least(0));
  }
};
// z -= lr (g + weight_decay w);  x = (1 - 1/t) x + z / t;  w = (1 - beta) z + beta x (Defazio et
// al. 2024). z and x start as w. Train the model at w, and evaluate averaged(model, "average"),
// which is the model at x. The rate needs no schedule that depends on the total number of updates.
class ScheduleFreeSGD : public internal::OptimizerWith<ScheduleFreeSGDOptions> {
 public:
  explicit ScheduleFreeSGD(ScheduleFreeSGDOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;

  ETUDE_FIELDS(ScheduleFreeSGD, slots_);
};

}  // namespace optim
}  // namespace etude
