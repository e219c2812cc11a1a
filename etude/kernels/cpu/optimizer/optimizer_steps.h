// SPDX-License-Identifier: Apache-2.0
// The formulas of optimiser updates, written once: on numbers they are the kernels, on tensors the
// lowering of the ops. So both compute the same bits.
#pragma once

#include <array>
#include <string_view>
#include <tuple>

#include "etude/kernels/cpu/optimizer/optimizer_more_steps.h"
#include "etude/kernels/cpu/optimizer/optimizer_numbers.h"

namespace etude::optimizer {

// A rule is the formula of an update for one element, with parameter w, its gradient and its states
// s. kState names the states in checkpoints; rate[i] is a rate of the update, in the order of
// optimizer_rates.cc.

struct Sgd {
  static constexpr std::string_view kName = "sgd";
  static constexpr std::array<const char*, 0> kState{};
  template <class T>
  static void step(T& w, const T& g, T*, const T* rate) {
    w = w - rate[0] * (g + rate[1] * w);
  }
};

template <bool nesterov>
struct Momentum {
  static constexpr std::string_view kName = nesterov ? "nesterov" : "momentum";
  static constexpr std::array kState{"velocity"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T slope = g + rate[1] * w;
    s[0] = rate[2] * s[0] + rate[3] * slope;
    if constexpr (nesterov) {
      w = w - rate[0] * (slope + rate[2] * s[0]);
    } else {
      w = w - rate[0] * s[0];
    }
  }
};

template <bool decoupled, bool amsgrad>
struct Adam {
  static constexpr std::string_view kName =
      decoupled ? (amsgrad ? "adamw_amsgrad" : "adamw") : (amsgrad ? "adam_amsgrad" : "adam");
  static constexpr auto kState = some<true, amsgrad>(std::array{"mean", "variance", "highest"});
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    T slope = g;
    if constexpr (decoupled) {
      w = w - rate[1] * w;
    } else {
      slope = g + rate[1] * w;
    }
    s[0] = rate[2] * s[0] + rate[3] * slope;
    s[1] = rate[4] * s[1] + rate[5] * (slope * slope);
    T variance = s[1];
    if constexpr (amsgrad) {
      s[2] = larger(s[2], s[1]);
      variance = s[2];
    }
    const T scale = square_root(variance * rate[7]) + rate[8];
    w = w - rate[0] * (s[0] * rate[6]) / scale;
  }
};

template <bool centered, bool with_momentum>
struct RmsProp {
  static constexpr std::string_view kName =
      centered ? (with_momentum ? "rmsprop_centered_momentum" : "rmsprop_centered")
               : (with_momentum ? "rmsprop_momentum" : "rmsprop");
  static constexpr auto kState =
      some<centered, with_momentum>(std::array{"mean", "variance", "velocity"});
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    T& v = s[centered ? 1 : 0];
    v = rate[1] * v + rate[2] * (g * g);
    T spread = v;
    if constexpr (centered) {
      s[0] = rate[1] * s[0] + rate[2] * g;
      spread = larger(v - s[0] * s[0], rate[9]);  // 0: rounding may make it negative
    }
    T quotient = g / (square_root(spread) + rate[3]);
    if constexpr (with_momentum) {
      s[kState.size() - 1] = rate[4] * s[kState.size() - 1] + quotient;
      quotient = s[kState.size() - 1];
    }
    w = w - rate[0] * quotient;
  }
};

struct AdaGrad {
  static constexpr std::string_view kName = "adagrad";
  static constexpr std::array kState{"squares"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = s[0] + g * g;
    w = w - rate[0] * g / (square_root(s[0] + rate[1]) + rate[2]);
  }
};

struct AdaDelta {
  static constexpr std::string_view kName = "adadelta";
  static constexpr std::array kState{"steps", "variance"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[1] = rate[1] * s[1] + rate[2] * (g * g);
    const T d = g * square_root(s[0] + rate[3]) / square_root(s[1] + rate[3]);
    s[0] = rate[1] * s[0] + rate[2] * (d * d);
    w = w - rate[0] * d;
  }
};

struct AdaMax {
  static constexpr std::string_view kName = "adamax";
  static constexpr std::array kState{"mean", "highest"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = rate[1] * s[0] + rate[2] * g;
    s[1] = larger(rate[3] * s[1], larger(g, -g));
    w = w - rate[0] * s[0] / (s[1] + rate[4]);
  }
};

struct RAdam {
  static constexpr std::string_view kName = "radam";
  static constexpr std::array kState{"mean", "variance"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T slope = g + rate[2] * w;
    s[0] = rate[3] * s[0] + rate[4] * slope;
    s[1] = rate[5] * s[1] + rate[6] * (slope * slope);
    w = w - (rate[0] * s[0] / (square_root(s[1]) + rate[7]) + rate[1] * s[0]);
  }
};

struct NAdam {
  static constexpr std::string_view kName = "nadam";
  static constexpr std::array kState{"mean", "variance"};
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
  static constexpr std::string_view kName = "lion";
  static constexpr std::array kState{"mean"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    w = w - rate[0] * (sign_of(rate[2] * s[0] + rate[3] * g) + rate[1] * w);
    s[0] = rate[4] * s[0] + rate[5] * g;
  }
};

using Rules =
    std::tuple<Sgd, Momentum<false>, Momentum<true>, Adam<false, false>, Adam<false, true>,
               Adam<true, false>, Adam<true, true>, RmsProp<false, false>, RmsProp<true, false>,
               RmsProp<false, true>, RmsProp<true, true>, AdaGrad, AdaDelta, AdaMax, RAdam, NAdam,
               Lion, Apply, Lamb, Muon, Adafactor, Shampoo, AdaBelief, Yogi, Rprop, Ftrl, Asgd,
               ScheduleFreeSgd, ScheduleFreeAdamW>;

// Calls fn(Rule{}) for the rule of that name; returns false if there is none.
template <class Fn>
bool with_rule(std::string_view name, const Fn& fn) {
  return std::apply([&](auto... rule) { return ((rule.kName == name && (fn(rule), true)) || ...); },
                    Rules{});
}

}  // namespace etude::optimizer
