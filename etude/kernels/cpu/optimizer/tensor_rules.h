// SPDX-License-Identifier: Apache-2.0
// The element-wise parts of optimisers that use whole tensors, in the form of optimizer_rules.h.
// Lamb, Muon and Adafactor do not make a step: they write a direction to w. The optimiser scales
// the whole direction before Apply adds it.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "etude/kernels/cpu/optimizer/adam_rules.h"
#include "etude/kernels/cpu/optimizer/adaptive_rules.h"
#include "etude/kernels/cpu/optimizer/rule_parts.h"

namespace etude::optimizer {

struct Apply {
  static constexpr std::string_view kName = "apply";
  struct Options {};
  template <class T>
  struct Rates {
    T lr;
  };
  template <class T>
  using State = NoState<T>;
  template <class T>
  static void step(T& w, const T& g, State<T>&, const Rates<T>& rate) {
    w = w - rate.lr * g;
  }
};

struct Lamb : Moments {
  static constexpr std::string_view kName = "lamb";
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.mean = rate.beta1 * s.mean + rate.fresh1 * g;
    s.variance = rate.beta2 * s.variance + rate.fresh2 * (g * g);
    w = s.mean * rate.unbias1 / (square_root(s.variance * rate.unbias2) + rate.eps) +
        rate.weight_decay * w;
  }
};

// The Nesterov momentum that a matrix step orthogonalises.
struct Muon : DecoupledMoments {
  static constexpr std::string_view kName = "muon";
  template <class T>
  struct State {
    T mean;
  };
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.mean = rate.beta1 * s.mean + rate.fresh1 * g;
    w = rate.beta1 * s.mean + rate.fresh1 * g;
  }
};

// The rule for tensors that are not matrices.
struct Adafactor {
  static constexpr std::string_view kName = "adafactor";
  struct Options {
    double weight_decay, fading, eps1;
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, old, fresh, min_variance;
  };
  template <class T>
  struct State {
    T variance;
  };
  static void rates(const Options& o, double t, double lr, Rates<double>& r) {
    const double fresh = std::pow(t, -o.fading);
    r.lr = std::min(lr, 1 / std::sqrt(t));
    r.weight_decay = lr * o.weight_decay;
    r.old = 1 - fresh;
    r.fresh = fresh;
    r.min_variance = o.eps1 * o.eps1;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.variance = rate.old * s.variance + rate.fresh * (g * g);
    w = g / square_root(larger(s.variance, rate.min_variance));
  }
};

// The rule for tensors that are not matrices: AdaGrad.
struct Shampoo {
  static constexpr std::string_view kName = "shampoo";
  struct Options {
    double weight_decay, eps;
  };
  template <class T>
  struct Rates {
    T lr, weight_decay, eps;
  };
  template <class T>
  using State = AdaGrad::State<T>;
  static void rates(const Options& o, double, double lr, Rates<double>& r) {
    r.weight_decay = lr * o.weight_decay;
  }
  template <class T>
  static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate) {
    s.squares = s.squares + g * g;
    w = w - rate.weight_decay * w;
    w = w - rate.lr * g / square_root(s.squares + rate.eps);
  }
};

using TensorRules = std::tuple<Apply, Lamb, Muon, Adafactor, Shampoo>;

}  // namespace etude::optimizer
