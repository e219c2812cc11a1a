// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer/optimizer_rates.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace etude::optimizer {
namespace {

// By rule: how many options it reads, and rates(o, t, lr, rate), which sets the rates in the order
// of its step; those that are left are 0.
template <class Rule>
struct Rates;

void set(double* rate, std::initializer_list<double> values) {
  std::fill(std::copy(values.begin(), values.end(), rate), rate + kRates, 0.0);
}

struct Descent {  // weight decay, momentum, dampening
  static constexpr std::size_t kOptions = 3;
  static void rates(const double* o, double t, double lr, double* rate) {
    set(rate, {lr, o[0], o[1], t == 1 ? 1 : 1 - o[2]});
  }
};
template <>
struct Rates<Sgd> : Descent {};
template <bool nesterov>
struct Rates<Momentum<nesterov>> : Descent {};

template <bool decoupled, bool amsgrad>
struct Rates<Adam<decoupled, amsgrad>> {  // weight decay, beta1, beta2, eps
  static constexpr std::size_t kOptions = 4;
  static void rates(const double* o, double t, double lr, double* rate) {
    set(rate, {lr, decoupled ? lr * o[0] : o[0], o[1], 1 - o[1], o[2], 1 - o[2],
               1 / (1 - std::pow(o[1], t)), 1 / (1 - std::pow(o[2], t)), o[3]});
  }
};

template <bool centered, bool with_momentum>
struct Rates<RmsProp<centered, with_momentum>> {  // rho, eps, momentum
  static constexpr std::size_t kOptions = 3;
  static void rates(const double* o, double, double lr, double* rate) {
    set(rate, {lr, o[0], 1 - o[0], o[1], o[2]});
  }
};

template <>
struct Rates<AdaGrad> {  // initial accumulator, eps
  static constexpr std::size_t kOptions = 2;
  static void rates(const double* o, double, double lr, double* rate) {
    set(rate, {lr, o[0], o[1]});
  }
};

template <>
struct Rates<AdaDelta> {  // rho, eps
  static constexpr std::size_t kOptions = 2;
  static void rates(const double* o, double, double lr, double* rate) {
    set(rate, {lr, o[0], 1 - o[0], o[1]});
  }
};

template <>
struct Rates<AdaMax> {  // beta1, beta2, eps
  static constexpr std::size_t kOptions = 3;
  static void rates(const double* o, double t, double lr, double* rate) {
    set(rate, {lr / (1 - std::pow(o[0], t)), o[0], 1 - o[0], o[1], o[2]});
  }
};

template <>
struct Rates<RAdam> {  // weight decay, beta1, beta2, eps
  static constexpr std::size_t kOptions = 4;
  static void rates(const double* o, double t, double lr, double* rate) {
    const double power = std::pow(o[2], t), limit = 2 / (1 - o[2]) - 1;
    const double r = limit - 2 * t * power / (1 - power), step = lr / (1 - std::pow(o[1], t));
    double scaled = 0, plain = step;
    if (r > 5) {
      scaled = step * std::sqrt(1 - power) *
               std::sqrt((r - 4) * (r - 2) * limit / ((limit - 4) * (limit - 2) * r));
      plain = 0;
    }
    set(rate, {scaled, plain, o[0], o[1], 1 - o[1], o[2], 1 - o[2], o[3]});
  }
};

template <>
struct Rates<NAdam> {  // weight decay, beta1, beta2, eps, psi
  static constexpr std::size_t kOptions = 5;
  // The momentum of update t.
  static double momentum(const double* o, double t) {
    return o[1] * (1 - 0.5 * std::pow(0.96, t * o[4]));
  }
  static void rates(const double* o, double t, double lr, double* rate) {
    double product = 1;  // of all momenta so far: soon 0, so few of them count
    for (double i = 1; i <= t && product > 1e-300; ++i) product *= momentum(o, i);
    const double now = momentum(o, t), next = momentum(o, t + 1);
    set(rate, {lr, next / (1 - product * next), (1 - now) / (1 - product), o[0], o[1], 1 - o[1],
               o[2], 1 - o[2], 1 / (1 - std::pow(o[2], t)), o[3]});
  }
};

template <>
struct Rates<Lion> {  // weight decay, beta1, beta2
  static constexpr std::size_t kOptions = 3;
  static void rates(const double* o, double, double lr, double* rate) {
    set(rate, {lr, o[0], o[1], 1 - o[1], o[2], 1 - o[2]});
  }
};

template <>
struct Rates<Apply> {
  static constexpr std::size_t kOptions = 0;
  static void rates(const double*, double, double lr, double* rate) { set(rate, {lr}); }
};

// Those of Adam; what decays is part of the direction.
template <>
struct Rates<Lamb> : Rates<Adam<false, false>> {};
template <>
struct Rates<Muon> : Rates<Adam<true, false>> {};
template <>
struct Rates<AdaBelief> : Rates<Adam<true, false>> {};
template <>
struct Rates<Yogi> : Rates<Adam<false, false>> {};

template <>
struct Rates<Adafactor> {  // weight decay, decay of the weight of what is new, eps1
  static constexpr std::size_t kOptions = 3;
  static void rates(const double* o, double t, double lr, double* rate) {
    const double fresh = std::pow(t, -o[1]);
    set(rate, {std::min(lr, 1 / std::sqrt(t)), lr * o[0], 1 - fresh, fresh, o[2] * o[2]});
  }
};

template <>
struct Rates<Shampoo> {  // weight decay, eps
  static constexpr std::size_t kOptions = 2;
  static void rates(const double* o, double, double lr, double* rate) {
    set(rate, {lr, lr * o[0], o[1]});
  }
};

template <>
struct Rates<Rprop> {  // shrinkage, growth, least and largest size
  static constexpr std::size_t kOptions = 4;
  static void rates(const double* o, double, double, double* rate) {
    set(rate, {o[1] - 1, o[0] - 1, o[2], o[3], 1, 0});
  }
};

template <>
struct Rates<Ftrl> {  // l1, l2, beta
  static constexpr std::size_t kOptions = 3;
  static void rates(const double* o, double, double lr, double* rate) {
    set(rate, {1 / lr, o[0], 2 * o[1] + o[2] / lr, 0});
  }
};

template <>
struct Rates<Asgd> {  // weight decay, lambda, alpha, the update from which on is averaged
  static constexpr std::size_t kOptions = 4;
  static void rates(const double* o, double t, double lr, double* rate) {
    const double step = lr / std::pow(1 + o[1] * lr * (t - 1), o[2]);
    const double fresh = 1 / std::max(1.0, t - 1 - o[3]);
    set(rate, {step, o[0], 1 - o[1] * step, 1 - fresh, fresh});
  }
};

template <>
struct Rates<ScheduleFreeSgd> {  // weight decay, beta
  static constexpr std::size_t kOptions = 2;
  static void rates(const double* o, double t, double lr, double* rate) {
    set(rate, {lr, o[0], o[1], 1 - o[1], 1 - 1 / t, 1 / t});
  }
};

template <>
struct Rates<ScheduleFreeAdamW> {  // weight decay, beta1, beta2, eps
  static constexpr std::size_t kOptions = 4;
  static void rates(const double* o, double t, double lr, double* rate) {
    set(rate, {lr, o[0], o[1], 1 - o[1], 1 - 1 / t, 1 / t, o[2], 1 - o[2],
               1 / (1 - std::pow(o[2], t)), o[3]});
  }
};

}  // namespace

RateFormula rate_formula(std::string_view rule) {
  RateFormula out;
  with_rule(rule, [&](auto r) {
    using R = Rates<decltype(r)>;
    out = {R::kOptions, R::rates};
  });
  return out;
}

}  // namespace etude::optimizer
