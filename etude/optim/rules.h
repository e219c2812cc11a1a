// SPDX-License-Identifier: Apache-2.0
// Optimisers with an elementwise step and up to three state tensors: RMSProp, AdaGrad, AdaDelta,
// AdaMax, RAdam, NAdam, Lion. SGD and the Adam family have files of their own.
#pragma once

#include "etude/optim/adam.h"
#include "etude/optim/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// Constructors throw kInvalidArgument for an option out of its range.

struct RMSPropOptions {
  Schedule lr = 1e-3;
  double rho = 0.9;
  double eps = 1e-8;
  double decay = 0;  // lr / (1 + decay * updates done)
  double momentum = 0;
  bool centered = false;  // divide by the standard deviation, not the root mean square

  static constexpr void ranges(const auto& row) {
    row("lr", &RMSPropOptions::lr, at_least(0));
    row("rho", &RMSPropOptions::rho, up_to(0, 1));
    row("eps", &RMSPropOptions::eps, at_least(0));
    row("decay", &RMSPropOptions::decay, at_least(0));
    row("momentum", &RMSPropOptions::momentum, up_to(0, 1));
  }
};
// v = rho v + (1 - rho) g^2;  w -= lr g / (sqrt(v) + eps). Centred: v minus the square of the
// running mean of g. With momentum: b = momentum b + that quotient, w -= lr b.
class RMSProp : public internal::OptimizerWith<RMSPropOptions> {
 public:
  explicit RMSProp(RMSPropOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(RMSProp, slots_);
};

struct AdaGradOptions {
  Schedule lr = 1e-3;
  double initial_accumulator = 0.1;
  double eps = 1e-8;

  static constexpr void ranges(const auto& row) {
    row("lr", &AdaGradOptions::lr, at_least(0));
    row("initial_accumulator", &AdaGradOptions::initial_accumulator, at_least(0));
    row("eps", &AdaGradOptions::eps, at_least(0));
  }
};
// a += g^2;  w -= lr g / (sqrt(initial_accumulator + a) + eps).
class AdaGrad : public internal::OptimizerWith<AdaGradOptions> {
 public:
  explicit AdaGrad(AdaGradOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(AdaGrad, slots_);
};

struct AdaDeltaOptions {
  Schedule lr = 1;
  double rho = 0.95;
  double eps = 1e-6;
  double decay = 0;

  static constexpr void ranges(const auto& row) {
    row("lr", &AdaDeltaOptions::lr, at_least(0));
    row("rho", &AdaDeltaOptions::rho, up_to(0, 1));
    row("eps", &AdaDeltaOptions::eps, at_least(0));
    row("decay", &AdaDeltaOptions::decay, at_least(0));
  }
};
// v = rho v + (1 - rho) g^2;  d = g sqrt(u + eps) / sqrt(v + eps);  u = rho u + (1 - rho) d^2;
// w -= lr d.
class AdaDelta : public internal::OptimizerWith<AdaDeltaOptions> {
 public:
  explicit AdaDelta(AdaDeltaOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(AdaDelta, slots_);
};

struct AdaMaxOptions {
  Schedule lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;

  static constexpr void ranges(const auto& row) { internal::adam_ranges<AdaMaxOptions>(row); }
};
// m as in Adam;  u = max(beta2 u, |g|);  w -= lr / (1 - beta1^t) m / (u + eps).
class AdaMax : public internal::OptimizerWith<AdaMaxOptions> {
 public:
  explicit AdaMax(AdaMaxOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(AdaMax, slots_);
};

struct RAdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0;  // times the parameter, added to the gradient

  static constexpr void ranges(const auto& row) {
    internal::decaying_adam_ranges<RAdamOptions>(row);
  }
};
// Adam that starts as momentum alone, until the variance of its scale is bounded (Liu et al. 2020).
class RAdam : public internal::OptimizerWith<RAdamOptions> {
 public:
  explicit RAdam(RAdamOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(RAdam, slots_);
};

struct NAdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0;
  double psi = 0.004;  // growth rate of the momentum, beta1 (1 - 0.96^(t psi) / 2)

  static constexpr void ranges(const auto& row) {
    internal::decaying_adam_ranges<NAdamOptions>(row);
    row("psi", &NAdamOptions::psi, at_least(0));
  }
};
// Adam with Nesterov momentum (Dozat 2016).
class NAdam : public internal::OptimizerWith<NAdamOptions> {
 public:
  explicit NAdam(NAdamOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(NAdam, slots_);
};

struct LionOptions {
  Schedule lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled

  static constexpr void ranges(const auto& row) {
    row("lr", &LionOptions::lr, at_least(0));
    row("beta1", &LionOptions::beta1, up_to(0, 1));
    row("beta2", &LionOptions::beta2, up_to(0, 1));
    row("weight_decay", &LionOptions::weight_decay, at_least(0));
  }
};
// w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w);  m = beta2 m + (1 - beta2) g.
class Lion : public internal::OptimizerWith<LionOptions> {
 public:
  explicit Lion(LionOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::RateOptions rate_options() const override;

  ETUDE_FIELDS(Lion, slots_);
};

}  // namespace optim
}  // namespace etude
