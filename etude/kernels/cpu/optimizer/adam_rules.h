// SPDX-License-Identifier: Apache-2.0
// Rules of Adam and its relatives: a step is a running mean of gradients, scaled by running means
// of their squares. The form of rules is in optimizer_rules.h.
#pragma once

#include <cmath>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "etude/kernels/cpu/optimizer/rule_parts.h"

namespace etude::optimizer {

// The parts that most of these rules share.
struct Moments {
  struct Options {
    double weight_decay, beta1, beta2, eps;
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, beta1, fresh1, beta2, fresh2, unbias1, unbias2, eps;
  };
  template <class T>
  struct State {
    T mean, variance;
  };
  static void rates(const Options& o, double t, double, Rates<double>& r) {
    r.fresh1 = 1 - o.beta1;
    r.fresh2 = 1 - o.beta2;
    r.unbias1 = 1 / (1 - std::pow(o.beta1, t));
    r.unbias2 = 1 / (1 - std::pow(o.beta2, t));
  }
};
// The weights decay, not the gradient.
struct DecoupledMoments : Moments {
  static void rates(const Options& o, double t, double lr, Rates<double>& r) {
    Moments::rates(o, t, lr, r);
    r.weight_decay = lr * o.weight_decay;
  }
};

template <class T>
struct AmsGradState {
  T mean, variance, highest;
};

template <bool decoupled, bool amsgrad>
struct Adam : Moments {
  static constexpr std::string_view kName =
      decoupled ? (amsgrad ? "adamw_amsgrad" : "adamw") : (amsgrad ? "adam_amsgrad" : "adam");
  template <class T>
  using State = std::conditional_t<amsgrad, AmsGradState<T>, Moments::State<T>>;
  static constexpr auto* rates = decoupled ? DecoupledMoments::rates : Moments::rates;
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    T slope = g;
    if constexpr (decoupled) {
      w = w - rate.weight_decay * w;
    } else {
      slope = g + rate.weight_decay * w;
    }
    s.mean = rate.beta1 * s.mean + rate.fresh1 * slope;
    s.variance = rate.beta2 * s.variance + rate.fresh2 * (slope * slope);
    T variance = s.variance;
    if constexpr (amsgrad) {
      s.highest = larger(s.highest, s.variance);
      variance = s.highest;
    }
    const T scale = square_root(variance * rate.unbias2) + rate.eps;
    w = w - rate.lr * (s.mean * rate.unbias1) / scale;
  }
};

struct AdaMax {
  static constexpr std::string_view kName = "adamax";
  struct Options {
    double beta1, beta2, eps;
  };
  template <class T>
  struct Rates {
    T lr, beta1, fresh1, beta2, eps;
  };
  template <class T>
  struct State {
    T mean, highest;
  };
  static void rates(const Options& o, double t, double lr, Rates<double>& r) {
    r.lr = lr / (1 - std::pow(o.beta1, t));
    r.fresh1 = 1 - o.beta1;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.mean = rate.beta1 * s.mean + rate.fresh1 * g;
    s.highest = larger(rate.beta2 * s.highest, larger(g, -g));
    w = w - rate.lr * s.mean / (s.highest + rate.eps);
  }
};

struct RAdam {
  static constexpr std::string_view kName = "radam";
  using Options = Moments::Options;
  template <class T>
  struct Rates {
    T scaled, plain, weight_decay, beta1, fresh1, beta2, fresh2, eps;  // scaled or plain is 0
  };
  template <class T>
  using State = Moments::State<T>;
  static void rates(const Options& o, double t, double lr, Rates<double>& r) {
    const double power = std::pow(o.beta2, t), limit = 2 / (1 - o.beta2) - 1;
    const double length = limit - 2 * t * power / (1 - power),
                 step = lr / (1 - std::pow(o.beta1, t));
    if (length > 5) {
      r.scaled =
          step * std::sqrt(1 - power) *
          std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
    } else {
      r.plain = step;
    }
    r.fresh1 = 1 - o.beta1;
    r.fresh2 = 1 - o.beta2;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T slope = g + rate.weight_decay * w;
    s.mean = rate.beta1 * s.mean + rate.fresh1 * slope;
    s.variance = rate.beta2 * s.variance + rate.fresh2 * (slope * slope);
    w = w - (rate.scaled * s.mean / (square_root(s.variance) + rate.eps) + rate.plain * s.mean);
  }
};

struct NAdam {
  static constexpr std::string_view kName = "nadam";
  struct Options {
    double weight_decay, beta1, beta2, eps, psi;
  };
  template <class T>
  struct Rates {
    T lr, ahead, now, weight_decay, beta1, fresh1, beta2, fresh2, unbias2, eps;
  };
  template <class T>
  using State = Moments::State<T>;
  // The momentum of update t.
  static double momentum(const Options& o, double t) {
    return o.beta1 * (1 - 0.5 * std::pow(0.96, t * o.psi));
  }
  static void rates(const Options& o, double t, double, Rates<double>& r) {
    double product = 1;  // of all momenta so far: soon 0, so few of them count
    for (double i = 1; i <= t && product > 1e-300; ++i) product *= momentum(o, i);
    const double now = momentum(o, t), next = momentum(o, t + 1);
    r.ahead = next / (1 - product * next);
    r.now = (1 - now) / (1 - product);
    r.fresh1 = 1 - o.beta1;
    r.fresh2 = 1 - o.beta2;
    r.unbias2 = 1 / (1 - std::pow(o.beta2, t));
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T slope = g + rate.weight_decay * w;
    s.mean = rate.beta1 * s.mean + rate.fresh1 * slope;
    s.variance = rate.beta2 * s.variance + rate.fresh2 * (slope * slope);
    const T ahead = rate.ahead * s.mean + rate.now * slope;
    w = w - rate.lr * ahead / (square_root(s.variance * rate.unbias2) + rate.eps);
  }
};

struct AdaBelief : DecoupledMoments {
  static constexpr std::string_view kName = "adabelief";
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.mean = rate.beta1 * s.mean + rate.fresh1 * g;
    const T surprise = g - s.mean;
    s.variance = rate.beta2 * s.variance + rate.fresh2 * (surprise * surprise) + rate.eps;
    w = w - rate.weight_decay * w;
    w = w - rate.lr * (s.mean * rate.unbias1) / (square_root(s.variance * rate.unbias2) + rate.eps);
  }
};

struct Yogi : Moments {
  static constexpr std::string_view kName = "yogi";
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T slope = g + rate.weight_decay * w, squared = slope * slope;
    s.mean = rate.beta1 * s.mean + rate.fresh1 * slope;
    s.variance = s.variance - rate.fresh2 * (sign_of(s.variance - squared) * squared);
    w = w - rate.lr * (s.mean * rate.unbias1) / (square_root(s.variance * rate.unbias2) + rate.eps);
  }
};

// As ScheduleFreeSgd.
struct ScheduleFreeAdamW {
  static constexpr std::string_view kName = "schedule_free_adamw";
  using Options = Moments::Options;
  template <class T>
  struct Rates {
    T lr, weight_decay, beta1, rest, old, fresh, beta2, fresh2, unbias2, eps;
  };
  template <class T>
  struct State {
    T iterate, variance, average;
  };
  static void rates(const Options& o, double t, double, Rates<double>& r) {
    r.rest = 1 - o.beta1;
    r.old = 1 - 1 / t;
    r.fresh = 1 / t;
    r.fresh2 = 1 - o.beta2;
    r.unbias2 = 1 / (1 - std::pow(o.beta2, t));
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.variance = rate.beta2 * s.variance + rate.fresh2 * (g * g);
    s.iterate = s.iterate - rate.lr * (g / (square_root(s.variance * rate.unbias2) + rate.eps) +
                                       rate.weight_decay * w);
    s.average = rate.old * s.average + rate.fresh * s.iterate;
    w = rate.rest * s.iterate + rate.beta1 * s.average;
  }
};

using AdamRules =
    std::tuple<Adam<false, false>, Adam<false, true>, Adam<true, false>, Adam<true, true>, AdaMax,
               RAdam, NAdam, AdaBelief, Yogi, ScheduleFreeAdamW>;

}  // namespace etude::optimizer
