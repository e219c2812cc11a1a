// SPDX-License-Identifier: Apache-2.0
// The formulas of optimiser updates, written once: on numbers they are the kernels, on tensors the
// lowering of the ops. So both give the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace etude::optimizer {

inline float square_root(float x) { return std::sqrt(x); }
inline double square_root(double x) { return std::sqrt(x); }
inline float larger(float a, float b) { return a > b || a != a ? a : b; }  // NaN stays
inline double larger(double a, double b) { return a > b || a != a ? a : b; }
inline float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }  // NaN stays
inline double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

// Hyperparameters of one update, in the order of the operand `rates`.
enum SgdRate : std::size_t { kSgdLr, kSgdDecay, kSgdMomentum, kSgdKeep, kSgdRates };
enum AdamRate : std::size_t {
  kAdamLr,
  kAdamDecay,
  kAdamBeta1,
  kAdamRest1,  // 1 - beta1
  kAdamBeta2,
  kAdamRest2,
  kAdamScale1,  // 1 / (1 - beta1^t)
  kAdamScale2,
  kAdamEpsilon,
  kAdamRates
};

template <class T>
void sgd(T& w, const T& g, const T* rate) {
  w = w - rate[kSgdLr] * (g + rate[kSgdDecay] * w);
}

template <bool nesterov, class T>
void momentum(T& w, const T& g, T& v, const T* rate) {
  const T slope = g + rate[kSgdDecay] * w;
  v = rate[kSgdMomentum] * v + rate[kSgdKeep] * slope;
  if constexpr (nesterov) {
    w = w - rate[kSgdLr] * (slope + rate[kSgdMomentum] * v);
  } else {
    w = w - rate[kSgdLr] * v;
  }
}

// `highest` is null without AMSGrad.
template <bool decoupled, bool amsgrad, class T>
void adam(T& w, const T& g, T& m, T& v, T* highest, const T* rate) {
  T slope = g;
  if constexpr (decoupled) {
    w = w - rate[kAdamDecay] * w;
  } else {
    slope = g + rate[kAdamDecay] * w;
  }
  m = rate[kAdamBeta1] * m + rate[kAdamRest1] * slope;
  v = rate[kAdamBeta2] * v + rate[kAdamRest2] * (slope * slope);
  T variance = v;
  if constexpr (amsgrad) {
    *highest = larger(*highest, v);
    variance = *highest;
  }
  const T scale = square_root(variance * rate[kAdamScale2]) + rate[kAdamEpsilon];
  w = w - rate[kAdamLr] * (m * rate[kAdamScale1]) / scale;
}

// Rules: w, gradient and states s[0..kStates) of one element. Where a rate is `rate[i]`, its order
// is that of rates() in optim/rules.cc.
constexpr std::size_t kRuleRates = 10;

// States: [mean,] variance [, velocity].
template <bool centered, bool with_momentum>
struct RmsProp {
  static constexpr std::size_t kStates = 1 + (centered ? 1 : 0) + (with_momentum ? 1 : 0);
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    T& v = s[centered ? 1 : 0];
    v = rate[1] * v + rate[2] * (g * g);
    T spread = v;
    if constexpr (centered) {
      s[0] = rate[1] * s[0] + rate[2] * g;
      spread = larger(v - s[0] * s[0], rate[9]);  // 0: rounding may lead below
    }
    T quotient = g / (square_root(spread) + rate[3]);
    if constexpr (with_momentum) {
      s[kStates - 1] = rate[4] * s[kStates - 1] + quotient;
      quotient = s[kStates - 1];
    }
    w = w - rate[0] * quotient;
  }
};

struct AdaGrad {
  static constexpr std::size_t kStates = 1;
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = s[0] + g * g;
    w = w - rate[0] * g / (square_root(s[0] + rate[1]) + rate[2]);
  }
};

struct AdaDelta {
  static constexpr std::size_t kStates = 2;  // squares of steps, variance
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[1] = rate[1] * s[1] + rate[2] * (g * g);
    const T d = g * square_root(s[0] + rate[3]) / square_root(s[1] + rate[3]);
    s[0] = rate[1] * s[0] + rate[2] * (d * d);
    w = w - rate[0] * d;
  }
};

struct AdaMax {
  static constexpr std::size_t kStates = 2;  // mean, highest
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = rate[1] * s[0] + rate[2] * g;
    s[1] = larger(rate[3] * s[1], larger(g, -g));
    w = w - rate[0] * s[0] / (s[1] + rate[4]);
  }
};

struct RAdam {
  static constexpr std::size_t kStates = 2;  // mean, variance
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T slope = g + rate[2] * w;
    s[0] = rate[3] * s[0] + rate[4] * slope;
    s[1] = rate[5] * s[1] + rate[6] * (slope * slope);
    w = w - (rate[0] * s[0] / (square_root(s[1]) + rate[7]) + rate[1] * s[0]);
  }
};

struct NAdam {
  static constexpr std::size_t kStates = 2;  // mean, variance
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T slope = g + rate[3] * w;
    s[0] = rate[4] * s[0] + rate[5] * slope;
    s[1] = rate[6] * s[1] + rate[7] * (slope * slope);
    const T ahead = rate[1] * s[0] + rate[2] * slope;
    w = w - rate[0] * ahead / (square_root(s[1] * rate[8]) + rate[9]);
  }
};

struct Lion {
  static constexpr std::size_t kStates = 1;  // mean
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    w = w - rate[0] * (sign_of(rate[2] * s[0] + rate[3] * g) + rate[1] * w);
    s[0] = rate[4] * s[0] + rate[5] * g;
  }
};

// Calls fn(Rule{}) for the rule of that name; false if there is none.
template <class Fn>
bool with_rule(std::string_view name, const Fn& fn) {
  if (name == "rmsprop") return fn(RmsProp<false, false>{}), true;
  if (name == "rmsprop_centered") return fn(RmsProp<true, false>{}), true;
  if (name == "rmsprop_momentum") return fn(RmsProp<false, true>{}), true;
  if (name == "rmsprop_centered_momentum") return fn(RmsProp<true, true>{}), true;
  if (name == "adagrad") return fn(AdaGrad{}), true;
  if (name == "adadelta") return fn(AdaDelta{}), true;
  if (name == "adamax") return fn(AdaMax{}), true;
  if (name == "radam") return fn(RAdam{}), true;
  if (name == "nadam") return fn(NAdam{}), true;
  if (name == "lion") return fn(Lion{}), true;
  return false;
}

}  // namespace etude::optimizer
