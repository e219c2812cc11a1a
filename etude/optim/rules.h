// SPDX-License-Identifier: Apache-2.0
// Optimisers whose step is a formula per element with up to three state tensors: RMSProp, AdaGrad,
// AdaDelta, AdaMax, RAdam, NAdam, Lion. SGD and the Adam family have files of their own.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "etude/optim/optimizer.h"
#include "etude/optim/schedule.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

namespace internal {

// What they share. A value; a copy goes on by itself. threads: thread-compatible.
class RuleOptimizer {
 public:
  virtual ~RuleOptimizer() = default;

  // Moves every tensor of `model` against its gradient, in place. `gradients` is the tangent of the
  // model; where it is absent the tensor stays.
  //
  // throws: kInvalidArgument, with the path, for gradients that do not fit the model.
  // cost:   one pass over each parameter; after the first update nothing of their size is
  // allocated.
  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where = CallSite::here()) {
    update_all(pair_up(model, gradients, updates() == 0 || restored_), where);
  }

  std::int64_t updates() const { return slots_.updates(); }
  State state() const { return slots_.state(); }
  // throws: kInvalidArgument for the state of another kind of optimiser.
  void restore(State state);

 protected:
  // `optimizer` is the class, for messages; `rule` is a formula of kernels/cpu/optimizer_steps.h;
  // `names` are those of its state.
  RuleOptimizer(std::string_view optimizer, std::string rule, std::vector<std::string> names)
      : update_(std::string(optimizer) + "::update"),
        rule_(std::move(rule)),
        slots_(std::move(names)) {}
  RuleOptimizer(const RuleOptimizer&) = default;
  RuleOptimizer& operator=(const RuleOptimizer&) = default;

 private:
  // The numbers of update t, counted from 1, in the order of the formula.
  virtual std::vector<double> rates(std::int64_t t) const = 0;
  void update_all(const std::vector<Parameter>& parameters, CallSite where);

  std::string update_;  // "Lion::update"
  std::string rule_;
  Slots slots_;
  bool restored_ = false;
};

}  // namespace internal

struct RMSPropOptions {
  Schedule lr = 1e-3;
  double rho = 0.9;
  double eps = 1e-8;
  double decay = 0;  // lr / (1 + decay * updates done)
  double momentum = 0;
  bool centered = false;  // divide by the deviation, not by the root mean square
};
// v = rho v + (1 - rho) g^2;  w -= lr g / (sqrt(v) + eps). Centred: v less the square of the
// running mean of g. With momentum: b = momentum b + that quotient, w -= lr b.
class RMSProp : public internal::RuleOptimizer {
 public:
  explicit RMSProp(RMSPropOptions options = {});
  const RMSPropOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  RMSPropOptions options_;
};

struct AdaGradOptions {
  Schedule lr = 1e-3;
  double initial_accumulator = 0.1;
  double eps = 1e-8;
};
// a += g^2;  w -= lr g / (sqrt(initial_accumulator + a) + eps).
class AdaGrad : public internal::RuleOptimizer {
 public:
  explicit AdaGrad(AdaGradOptions options = {});
  const AdaGradOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  AdaGradOptions options_;
};

struct AdaDeltaOptions {
  Schedule lr = 1;
  double rho = 0.95;
  double eps = 1e-6;
  double decay = 0;
};
// v = rho v + (1 - rho) g^2;  d = g sqrt(u + eps) / sqrt(v + eps);  u = rho u + (1 - rho) d^2;
// w -= lr d.
class AdaDelta : public internal::RuleOptimizer {
 public:
  explicit AdaDelta(AdaDeltaOptions options = {});
  const AdaDeltaOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  AdaDeltaOptions options_;
};

struct AdaMaxOptions {
  Schedule lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
// m as in Adam;  u = max(beta2 u, |g|);  w -= lr / (1 - beta1^t) m / (u + eps).
class AdaMax : public internal::RuleOptimizer {
 public:
  explicit AdaMax(AdaMaxOptions options = {});
  const AdaMaxOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  AdaMaxOptions options_;
};

struct RAdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0;  // added to the gradient, times the parameter
};
// Adam that begins with plain momentum, until the variance of its scale is bounded (Liu et al.
// 2020).
class RAdam : public internal::RuleOptimizer {
 public:
  explicit RAdam(RAdamOptions options = {});
  const RAdamOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  RAdamOptions options_;
};

struct NAdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0;
  double psi = 0.004;  // how fast the momentum of update t, beta1 (1 - 0.96^(t psi) / 2), rises
};
// Adam with the look ahead of Nesterov (Dozat 2016).
class NAdam : public internal::RuleOptimizer {
 public:
  explicit NAdam(NAdamOptions options = {});
  const NAdamOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  NAdamOptions options_;
};

struct LionOptions {
  Schedule lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // beside the gradient
};
// w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w);  m = beta2 m + (1 - beta2) g.
class Lion : public internal::RuleOptimizer {
 public:
  explicit Lion(LionOptions options = {});
  const LionOptions& options() const { return options_; }

 private:
  std::vector<double> rates(std::int64_t t) const override;
  LionOptions options_;
};

}  // namespace optim
}  // namespace etude
