// SPDX-License-Identifier: Apache-2.0
// Optimisers with a separate rate for each element, computed from squared gradients: RMSProp,
// AdaGrad, AdaDelta, FTRL.
#pragma once

#include <string_view>

#include "etude/optim/internal/optimizer.h"
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
  bool centered = false;  // divide by the standard deviation instead of the root mean square

  static constexpr void ranges(const auto& option) {
    option("lr", &RMSPropOptions::lr, at_least(0));
    option("rho", &RMSPropOptions::rho, up_to(0, 1));
    option("eps", &RMSPropOptions::eps, at_least(0));
    option("decay", &RMSPropOptions::decay, at_least(0));
    option("momentum", &RMSPropOptions::momentum, up_to(0, 1));
  }
};
// v = rho v + (1 - rho) g^2;  w -= lr g / (sqrt(v) + eps). `centered` subtracts the square of the
// running mean of g from v under the root. With momentum, b = momentum b + g / (sqrt(v) + eps), and
// w -= lr b.
class RMSProp : public internal::OptimizerWith<RMSPropOptions> {
 public:
  explicit RMSProp(RMSPropOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(RMSProp, slots_);
};

struct AdaGradOptions {
  Schedule lr = 1e-3;
  double initial_accumulator = 0.1;
  double eps = 1e-8;

  static constexpr void ranges(const auto& option) {
    option("lr", &AdaGradOptions::lr, at_least(0));
    option("initial_accumulator", &AdaGradOptions::initial_accumulator, at_least(0));
    option("eps", &AdaGradOptions::eps, at_least(0));
  }
};
// a += g^2;  w -= lr g / (sqrt(initial_accumulator + a) + eps).
class AdaGrad : public internal::OptimizerWith<AdaGradOptions> {
 public:
  explicit AdaGrad(AdaGradOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(AdaGrad, slots_);
};

struct AdaDeltaOptions {
  Schedule lr = 1;
  double rho = 0.95;
  double eps = 1e-6;
  double decay = 0;

  static constexpr void ranges(const auto& option) {
    option("lr", &AdaDeltaOptions::lr, at_least(0));
    option("rho", &AdaDeltaOptions::rho, up_to(0, 1));
    option("eps", &AdaDeltaOptions::eps, at_least(0));
    option("decay", &AdaDeltaOptions::decay, at_least(0));
  }
};
// v = rho v + (1 - rho) g^2;  d = g sqrt(u + eps) / sqrt(v + eps);  u = rho u + (1 - rho) d^2;
// w -= lr d.
class AdaDelta : public internal::OptimizerWith<AdaDeltaOptions> {
 public:
  explicit AdaDelta(AdaDeltaOptions options = {}, CallSite where = CallSite::here());

 private:
  ETUDE_FIELDS(AdaDelta, slots_);
};

struct FTRLOptions {
  Schedule lr = 1e-3;
  double initial_accumulator = 0.1;
  double l1 = 0;
  double l2 = 0;
  double beta = 0;

  static constexpr void ranges(const auto& option) {
    option("lr", &FTRLOptions::lr, above(0));
    option("initial_accumulator", &FTRLOptions::initial_accumulator, at_least(0));
    option("l1", &FTRLOptions::l1, at_least(0));
    option("l2", &FTRLOptions::l2, at_least(0));
    option("beta", &FTRLOptions::beta, at_least(0));
  }
};
// Follow the regularised leader for each element (McMahan et al. 2013). The rates fall in
// proportion to 1 / sqrt(n). n starts as initial_accumulator.
// n' = n + g^2;  z += g - (sqrt(n') - sqrt(n)) / lr w;
// w = -(z - sign(z) l1) / (sqrt(n') / lr + 2 l2 + beta / lr) if |z| > l1, else 0.
class FTRL : public internal::OptimizerWith<FTRLOptions> {
 public:
  explicit FTRL(FTRLOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;
  bool has_increments() const override { return false; }

  ETUDE_FIELDS(FTRL, slots_);
};

}  // namespace optim
}  // namespace etude
