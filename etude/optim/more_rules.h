// SPDX-License-Identifier: Apache-2.0
// Further optimisers with an elementwise step: AdaBelief, Yogi, Rprop, FTRL, ASGD and the
// schedule-free forms of SGD and AdamW. The usual ones: sgd.h, adam.h, rules.h.
#pragma once

#include "etude/optim/adam.h"
#include "etude/optim/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// Constructors throw kInvalidArgument for an option out of its range.

struct AdaBeliefOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // decoupled, as in AdamW

  static constexpr void ranges(const auto& row) {
    internal::adam_ranges<AdaBeliefOptions>(row);
    row("weight_decay", &AdaBeliefOptions::weight_decay, at_least(0));
  }
};
// Adam with v = beta2 v + (1 - beta2) (g - m)^2 + eps (Zhuang et al. 2020).
class AdaBelief : public internal::OptimizerWith<AdaBeliefOptions> {
 public:
  explicit AdaBelief(AdaBeliefOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(AdaBelief, slots_);
};

struct YogiOptions {
  Schedule lr = 1e-2;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-3;
  double initial_accumulator = 1e-6;
  double weight_decay = 0;  // times the parameter, added to the gradient

  static constexpr void ranges(const auto& row) {
    internal::adam_ranges<YogiOptions>(row);
    row("initial_accumulator", &YogiOptions::initial_accumulator, at_least(0));
    row("weight_decay", &YogiOptions::weight_decay, at_least(0));
  }
};
// Adam with v -= (1 - beta2) sign(v - g^2) g^2, from initial_accumulator (Zaheer et al. 2018).
class Yogi : public internal::OptimizerWith<YogiOptions> {
 public:
  explicit Yogi(YogiOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;
  internal::StateStart start_of(std::size_t state, const Tensor& value) const override;

  ETUDE_FIELDS(Yogi, slots_);
};

struct RpropOptions {
  double lr = 0.01;     // initial step size; scaling the rate later has no effect
  double shrink = 0.5;  // factor of the step size when the gradient changes sign
  double grow = 1.2;    // factor otherwise
  double min_size = 1e-6;
  double max_size = 50;

  static constexpr void ranges(const auto& row) {
    row("lr", &RpropOptions::lr, above(0));
    row("shrink", &RpropOptions::shrink, within(0, 1));
    row("grow", &RpropOptions::grow, at_least(1));
    row("min_size", &RpropOptions::min_size, at_least(0));
    row("max_size", &RpropOptions::max_size, above(0));
  }
};
// Uses only the sign of the gradient; each element has its own step size. When the gradient changes
// sign, the step size shrinks and the step is skipped (Riedmiller and Braun 1993). For full
// batches.
class Rprop : public internal::OptimizerWith<RpropOptions> {
 public:
  explicit Rprop(RpropOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;
  internal::StateStart start_of(std::size_t state, const Tensor& value) const override;

  Schedule lr_;  // of the options
  ETUDE_FIELDS(Rprop, slots_);
};

struct FTRLOptions {
  Schedule lr = 1e-3;
  double initial_accumulator = 0.1;
  double l1 = 0;
  double l2 = 0;
  double beta = 0;

  static constexpr void ranges(const auto& row) {
    row("lr", &FTRLOptions::lr, above(0));
    row("initial_accumulator", &FTRLOptions::initial_accumulator, at_least(0));
    row("l1", &FTRLOptions::l1, at_least(0));
    row("l2", &FTRLOptions::l2, at_least(0));
    row("beta", &FTRLOptions::beta, at_least(0));
  }
};
// Follow the regularised leader, by coordinate (McMahan et al. 2013), with rates that fall with the
// square root of n: n' = n + g^2;  z += g - (sqrt(n') - sqrt(n)) / lr w;
// w = -(z - sign(z) l1) / (sqrt(n') / lr + 2 l2 + beta / lr) where |z| > l1, else 0.
class FTRL : public internal::OptimizerWith<FTRLOptions> {
 public:
  explicit FTRL(FTRLOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;
  internal::StateStart start_of(std::size_t state, const Tensor& value) const override;
  bool has_increments() const override { return false; }

  ETUDE_FIELDS(FTRL, slots_);
};

struct ASGDOptions {
  Schedule lr = 1e-2;
  double lambda = 1e-4;  // decay of the weights
  double alpha = 0.75;   // exponent of the fall of the rate
  double start = 1e6;    // the first update whose weights are averaged
  double weight_decay = 0;

  static constexpr void ranges(const auto& row) {
    row("lr", &ASGDOptions::lr, at_least(0));
    row("lambda", &ASGDOptions::lambda, at_least(0));
    row("alpha", &ASGDOptions::alpha, at_least(0));
    row("start", &ASGDOptions::start, at_least(0));
    row("weight_decay", &ASGDOptions::weight_decay, at_least(0));
  }
};
// Averaged SGD (Polyak and Juditsky 1992): e = lr / (1 + lambda lr (t - 1))^alpha;
// w = (1 - lambda e) w - e (g + weight_decay w). averaged(model, "average") returns the mean of the
// weights since `start`.
class ASGD : public internal::OptimizerWith<ASGDOptions> {
 public:
  explicit ASGD(ASGDOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;
  internal::StateStart start_of(std::size_t state, const Tensor& value) const override;

  ETUDE_FIELDS(ASGD, slots_);
};

struct ScheduleFreeSGDOptions {
  Schedule lr = 1;
  double beta = 0.9;
  double weight_decay = 0;

  static constexpr void ranges(const auto& row) {
    row("lr", &ScheduleFreeSGDOptions::lr, at_least(0));
    row("beta", &ScheduleFreeSGDOptions::beta, up_to(0, 1));
    row("weight_decay", &ScheduleFreeSGDOptions::weight_decay, at_least(0));
  }
};
// z -= lr (g + weight_decay w);  x = (1 - 1/t) x + z / t;  w = (1 - beta) z + beta x, where z and x
// start at w (Defazio et al. 2024). The model is trained at w; evaluate averaged(model, "average"),
// which is x. The schedule does not need the number of updates.
class ScheduleFreeSGD : public internal::OptimizerWith<ScheduleFreeSGDOptions> {
 public:
  explicit ScheduleFreeSGD(ScheduleFreeSGDOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;
  internal::StateStart start_of(std::size_t state, const Tensor& value) const override;

  ETUDE_FIELDS(ScheduleFreeSGD, slots_);
};

struct ScheduleFreeAdamWOptions {
  Schedule lr = 2.5e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;

  static constexpr void ranges(const auto& row) {
    internal::adam_ranges<ScheduleFreeAdamWOptions>(row);
    row("weight_decay", &ScheduleFreeAdamWOptions::weight_decay, at_least(0));
  }
};
// The same with z -= lr (g / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w), v as in Adam.
class ScheduleFreeAdamW : public internal::OptimizerWith<ScheduleFreeAdamWOptions> {
 public:
  explicit ScheduleFreeAdamW(ScheduleFreeAdamWOptions options = {},
                             CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;
  internal::StateStart start_of(std::size_t state, const Tensor& value) const override;

  ETUDE_FIELDS(ScheduleFreeAdamW, slots_);
};

}  // namespace optim
}  // namespace etude
