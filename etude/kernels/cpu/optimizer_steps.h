// SPDX-License-Identifier: Apache-2.0
// The formulas of optimiser updates, written once: on numbers they are the kernels, on tensors the
// lowering of the ops. So both give the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace etude::optimizer {

inline float square_root(float x) { return std::sqrt(x); }
inline double square_root(double x) { return std::sqrt(x); }
inline float larger(float a, float b) { return a > b || a != a ? a : b; }  // NaN stays
inline double larger(double a, double b) { return a > b || a != a ? a : b; }

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

}  // namespace etude::optimizer
