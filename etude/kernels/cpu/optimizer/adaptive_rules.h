// SPDX-License-Identifier: Apache-2.0
// Rules with a separate rate for each element, computed from sums or running means of squared
// gradients. The form of rules is in optimizer_rules.h.
#pragma once

#include <string_view>
#include <tuple>

#include "etude/kernels/cpu/optimizer/rule_parts.h"

namespace etude::optimizer {

template <class T, bool centered, bool with_momentum>
struct RmsPropState {
  T mean, variance, velocity;
};
template <class T>
struct RmsPropState<T, true, false> {
  T mean, variance;
};
template <class T>
struct RmsPropState<T, false, true> {
  T variance, velocity;
};
template <class T>
struct RmsPropState<T, false, false> {
  T variance;
};

template <bool centered, bool with_momentum>
struct RmsProp {
  static constexpr std::string_view kName =
      centered ? (with_momentum ? "rmsprop_centered_momentum" : "rmsprop_centered")
               : (with_momentum ? "rmsprop_momentum" : "rmsprop");
  struct Options {
    double rho, eps, momentum;
  };
  template <class T>
  struct Rates {
    T lr, rho, fresh, eps, momentum, zero;
  };
  template <class T>
  using State = RmsPropState<T, centered, with_momentum>;
  static void rates(const Options& o, double, double, Rates<double>& r) { r.fresh = 1 - o.rho; }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.variance = rate.rho * s.variance + rate.fresh * (g * g);
    T spread = s.variance;
    if constexpr (centered) {
      s.mean = rate.rho * s.mean + rate.fresh * g;
      spread = larger(s.variance - s.mean * s.mean, rate.zero);  // rounding may make it negative
    }
    T quotient = g / (square_root(spread) + rate.eps);
    if constexpr (with_momentum) {
      s.velocity = rate.momentum * s.velocity + quotient;
      quotient = s.velocity;
    }
    w = w - rate.lr * quotient;
  }
};

struct AdaGrad {
  static constexpr std::string_view kName = "adagrad";
  struct Options {
    double initial_accumulator, eps;
  };
  template <class T>
  struct Rates {
    T lr, initial_accumulator, eps;
  };
  template <class T>
  struct State {
    T squares;
  };
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.squares = s.squares + g * g;
    w = w - rate.lr * g / (square_root(s.squares + rate.initial_accumulator) + rate.eps);
  }
};

struct AdaDelta {
  static constexpr std::string_view kName = "adadelta";
  struct Options {
    double rho, eps;
  };
  template <class T>
  struct Rates {
    T lr, rho, fresh, eps;
  };
  template <class T>
  struct State {
    T steps, variance;
  };
  static void rates(const Options& o, double, double, Rates<double>& r) { r.fresh = 1 - o.rho; }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.variance = rate.rho * s.variance + rate.fresh * (g * g);
    const T d = g * square_root(s.steps + rate.eps) / square_root(s.variance + rate.eps);
    s.steps = rate.rho * s.steps + rate.fresh * (d * d);
    w = w - rate.lr * d;
  }
};

struct Ftrl {
  static constexpr std::string_view kName = "ftrl";
  struct Options {
    double l1, l2, beta;
  };
  template <class T>
  struct Rates {
    T inverse_lr, l1, pull, zero;
  };
  template <class T>
  struct State {
    T squares, linear;
  };
  static void rates(const Options& o, double, double lr, Rates<double>& r) {
    r.inverse_lr = 1 / lr;
    r.pull = 2 * o.l2 + o.beta / lr;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    const T squares = s.squares + g * g, root = square_root(squares);
    s.linear = s.linear + (g - rate.inverse_lr * (root - square_root(s.squares)) * w);
    s.squares = squares;
    const T beyond = larger(larger(s.linear, -s.linear) - rate.l1, rate.zero);
    w = -(sign_of(s.linear) * beyond) / (rate.inverse_lr * root + rate.pull);
  }
};

using AdaptiveRules = std::tuple<RmsProp<false, false>, RmsProp<true, false>, RmsProp<false, true>,
                                 RmsProp<true, true>, AdaGrad, AdaDelta, Ftrl>;

}  // namespace etude::optimizer
