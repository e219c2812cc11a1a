// SPDX-License-Identifier: Apache-2.0
// Rules that step along the gradient, its sign, or a running mean of it. The form of rules is in
// optimizer_rules.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "etude/kernels/cpu/optimizer/rule_parts.h"

namespace etude::optimizer {

struct Sgd {
  static constexpr std::string_view kName = "sgd";
  struct Options {
    double weight_decay, momentum, dampening;
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, momentum, fresh;
  };
  template <class T>
  using State = NoState<T>;
  static void rates(const Options& o, double t, double, Rates<double>& r) {
    r.fresh = t == 1 ? 1 : 1 - o.dampening;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>&, const Rates<T>& rate) {
    w = w - rate.lr * (g + rate.weight_decay * w);
  }
};

template <bool nesterov>
struct Momentum : Sgd {
  static constexpr std::string_view kName = nesterov ? "nesterov" : "momentum";
  template <class T>
  struct State {
    T velocity;
  };
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T slope = g + rate.weight_decay * w;
    s.velocity = rate.momentum * s.velocity + rate.fresh * slope;
    if constexpr (nesterov) {
      w = w - rate.lr * (slope + rate.momentum * s.velocity);
    } else {
      w = w - rate.lr * s.velocity;
    }
  }
};

struct Lion {
  static constexpr std::string_view kName = "lion";
  struct Options {
    double weight_decay, beta1, beta2;
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, beta1, fresh1, beta2, fresh2;
  };
  template <class T>
  struct State {
    T mean;
  };
  static void rates(const Options& o, double, double, Rates<double>& r) {
    r.fresh1 = 1 - o.beta1;
    r.fresh2 = 1 - o.beta2;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    w = w - rate.lr * (sign_of(rate.beta1 * s.mean + rate.fresh1 * g) + rate.weight_decay * w);
    s.mean = rate.beta2 * s.mean + rate.fresh2 * g;
  }
};

struct Rprop {
  static constexpr std::string_view kName = "rprop";
  struct Options {
    double shrink, grow, min_size, max_size;
  };
  template <class T>
  struct Rates {
    T growth, shrinkage, min_size, max_size, one, zero;
  };
  template <class T>
  struct State {
    T previous, size;
  };
  static void rates(const Options& o, double, double, Rates<double>& r) {
    r.growth = o.grow - 1;
    r.shrinkage = o.shrink - 1;
    r.one = 1;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T turn = sign_of(g * s.previous);
    const T goes_on = larger(turn, rate.zero), turns = larger(-turn, rate.zero);
    const T factor = rate.one + goes_on * rate.growth + turns * rate.shrinkage;
    s.size = smaller(larger(s.size * factor, rate.min_size), rate.max_size);
    s.previous = g * (rate.one - turns);  // after a change of sign it waits for one update
    w = w - sign_of(s.previous) * s.size;
  }
};

struct Asgd {
  static constexpr std::string_view kName = "asgd";
  struct Options {
    double weight_decay, lambda, alpha,
        start;  // averaging begins with update start + 2, counted from 1
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, shrink, old, fresh;
  };
  template <class T>
  struct State {
    T average;
  };
  static void rates(const Options& o, double t, double lr, Rates<double>& r) {
    const double step = lr / std::pow(1 + o.lambda * lr * (t - 1), o.alpha);
    const double fresh = 1 / std::max(1.0, t - 1 - o.start);
    r.lr = step;
    r.shrink = 1 - o.lambda * step;
    r.old = 1 - fresh;
    r.fresh = fresh;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T slope = g + rate.weight_decay * w;
    w = rate.shrink * w - rate.lr * slope;
    s.average = rate.old * s.average + rate.fresh * w;
  }
};

// Defazio et al. 2024: the gradient is taken between the iterates and their average.
struct ScheduleFreeSgd {
  static constexpr std::string_view kName = "schedule_free_sgd";
  struct Options {
    double weight_decay, beta;
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, beta, rest, old, fresh;
  };
  template <class T>
  struct State {
    T iterate, average;
  };
  static void rates(const Options& o, double t, double, Rates<double>& r) {
    r.rest = 1 - o.beta;
    r.old = 1 - 1 / t;
    r.fresh = 1 / t;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.iterate = s.iterate - rate.lr * (g + rate.weight_decay * w);
    s.average = rate.old * s.average + rate.fresh * s.iterate;
    w = rate.rest * s.iterate + rate.beta * s.average;
  }
};

using DescentRules =
    std::tuple<Sgd, Momentum<false>, Momentum<true>, Lion, Rprop, Asgd, ScheduleFreeSgd>;

}  // namespace etude::optimizer
