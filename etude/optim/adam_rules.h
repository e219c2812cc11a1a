// SPDX-License-Identifier: Apache-2.0
// The Adam family of optimisers: AdaMax, RAdam, NAdam, AdaBelief, Yogi and schedule-free AdamW.
// Adam and AdamW: adam.h.
#pragma once

#include <string_view>

#include "etude/optim/adam.h"
#include "etude/optim/internal/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// Constructors throw kInvalidArgument for an option out of its range.

struct AdaMaxOptions {
  Schedule lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;

  static constexpr void ranges(const auto& option) { internal::adam_ranges<AdaMaxOptions>(option); }
};
// m as in Adam;  u = max(beta2 u, |g|);  w -= lr / (1 - beta1^t) m / (u + eps).
class AdaMax : public internal::OptimizerWith<AdaMaxOptions> {
 public:
  explicit AdaMax(AdaMaxOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(AdaMax, slots_);
};

struct RAdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0;  // weight_decay * parameter is added to the gradient

  static constexpr void ranges(const auto& option) {
    internal::decaying_adam_ranges<RAdamOptions>(option);
  }
};
// Starts with momentum alone. Takes rectified steps of Adam once the variance of the adaptive rate
// is bounded (Liu et al. 2020).
class RAdam : public internal::OptimizerWith<RAdamOptions> {
 public:
  explicit RAdam(RAdamOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(RAdam, slots_);
};

struct NAdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0;
  double psi = 0.004;  // the momentum of update t is beta1 (1 - 0.96^(t psi) / 2)

  static constexpr void ranges(const auto& option) {
    internal::decaying_adam_ranges<NAdamOptions>(option);
    option("psi", &NAdamOptions::psi, at_least(0));
  }
};
// Adam with Nesterov momentum (Dozat 2016).
class NAdam : public internal::OptimizerWith<NAdamOptions> {
 public:
  explicit NAdam(NAdamOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(NAdam, slots_);
};

struct AdaBeliefOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // decoupled, as in AdamW

  static constexpr void ranges(const auto& option) {
    internal::adam_ranges<AdaBeliefOptions>(option);
    option("weight_decay", &AdaBeliefOptions::weight_decay, at_least(0));
  }
};
// Adam with v = beta2 v + (1 - beta2) (g - m)^2 + eps (Zhuang et al. 2020).
class AdaBelief : public internal::OptimizerWith<AdaBeliefOptions> {
 public:
  explicit AdaBelief(AdaBeliefOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(AdaBelief, slots_);
};

struct YogiOptions {
  Schedule lr = 1e-2;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-3;
  double initial_accumulator = 1e-6;
  double weight_decay = 0;  // weight_decay * parameter is added to the gradient

  static constexpr void ranges(const auto& option) {
    internal::adam_ranges<YogiOptions>(option);
    option("initial_accumulator", &YogiOptions::initial_accumulator, at_least(0));
    option("weight_decay", &YogiOptions::weight_decay, at_least(0));
  }
};
// Adam with v -= (1 - beta2) sign(v - g^2) g^2 (Zaheer et al. 2018). v starts as
// initial_accumulator.
class Yogi : public internal::OptimizerWith<YogiOptions> {
 public:
  explicit Yogi(YogiOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;

  ETUDE_FIELDS(Yogi, slots_);
};

struct ScheduleFreeAdamWOptions {
  Schedule lr = 2.5e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;

  static constexpr void ranges(const auto& option) {
    internal::adam_ranges<ScheduleFreeAdamWOptions>(option);
    option("weight_decay", &ScheduleFreeAdamWOptions::weight_decay, at_least(0));
  }
};
// ScheduleFreeSGD (descent_rules.h) with beta1 in place of beta, v as in Adam, and
// z -= lr (g / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w).
class ScheduleFreeAdamW : public internal::OptimizerWith<ScheduleFreeAdamWOptions> {
 public:
  explicit ScheduleFreeAdamW(ScheduleFreeAdamWOptions options = {},
                             CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;

  ETUDE_FIELDS(ScheduleFreeAdamW, slots_);
};

}  // namespace optim
}  // namespace etude
