// SPDX-License-Identifier: Apache-2.0
// More formulas of optimiser updates, in the form of optimizer_steps.h, which lists them. Those of
// Lamb, Muon and Adafactor are not steps: they leave in w a direction, which the optimiser scales
// as a whole before Apply adds it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "etude/kernels/cpu/optimizer/optimizer_numbers.h"

namespace etude::optimizer {

struct Apply {
  static constexpr std::string_view kName = "apply";
  static constexpr std::array<const char*, 0> kState{};
  template <class T>
  static void step(T& w, const T& g, T*, const T* rate) {
    w = w - rate[0] * g;
  }
};

struct Lamb {
  static constexpr std::string_view kName = "lamb";
  static constexpr std::array kState{"mean", "variance"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = rate[2] * s[0] + rate[3] * g;
    s[1] = rate[4] * s[1] + rate[5] * (g * g);
    w = s[0] * rate[6] / (square_root(s[1] * rate[7]) + rate[8]) + rate[1] * w;
  }
};

// The Nesterov momentum that a matrix step orthogonalises.
struct Muon {
  static constexpr std::string_view kName = "muon";
  static constexpr std::array kState{"mean"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = rate[2] * s[0] + rate[3] * g;
    w = rate[2] * s[0] + rate[3] * g;
  }
};

// For tensors that are not matrices.
struct Adafactor {
  static constexpr std::string_view kName = "adafactor";
  static constexpr std::array kState{"variance"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = rate[2] * s[0] + rate[3] * (g * g);
    w = g / square_root(larger(s[0], rate[4]));
  }
};

// For tensors that are not matrices: AdaGrad.
struct Shampoo {
  static constexpr std::string_view kName = "shampoo";
  static constexpr std::array kState{"squares"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = s[0] + g * g;
    w = w - rate[1] * w;
    w = w - rate[0] * g / square_root(s[0] + rate[2]);
  }
};

struct AdaBelief {
  static constexpr std::string_view kName = "adabelief";
  static constexpr std::array kState{"mean", "variance"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = rate[2] * s[0] + rate[3] * g;
    const T surprise = g - s[0];
    s[1] = rate[4] * s[1] + rate[5] * (surprise * surprise) + rate[8];
    w = w - rate[1] * w;
    w = w - rate[0] * (s[0] * rate[6]) / (square_root(s[1] * rate[7]) + rate[8]);
  }
};

struct Yogi {
  static constexpr std::string_view kName = "yogi";
  static constexpr std::array kState{"mean", "variance"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T slope = g + rate[1] * w, squared = slope * slope;
    s[0] = rate[2] * s[0] + rate[3] * slope;
    s[1] = s[1] - rate[5] * (sign_of(s[1] - squared) * squared);
    w = w - rate[0] * (s[0] * rate[6]) / (square_root(s[1] * rate[7]) + rate[8]);
  }
};

// rate: growth - 1, shrinkage - 1, least and largest size, 1, 0.
struct Rprop {
  static constexpr std::string_view kName = "rprop";
  static constexpr std::array kState{"previous", "size"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T turn = sign_of(g * s[0]);
    const T goes_on = larger(turn, rate[5]), turns = larger(-turn, rate[5]);
    const T factor = rate[4] + goes_on * rate[0] + turns * rate[1];
    s[1] = smaller(larger(s[1] * factor, rate[2]), rate[3]);
    s[0] = g * (rate[4] - turns);  // after a change of sign it waits for one update
    w = w - sign_of(s[0]) * s[1];
  }
};

// rate: 1 / lr, l1, 2 l2 + beta / lr, 0.
struct Ftrl {
  static constexpr std::string_view kName = "ftrl";
  static constexpr std::array kState{"squares", "linear"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T squares = s[0] + g * g, root = square_root(squares);
    s[1] = s[1] + (g - rate[0] * (root - square_root(s[0])) * w);
    s[0] = squares;
    const T beyond = larger(larger(s[1], -s[1]) - rate[1], rate[3]);
    w = -(sign_of(s[1]) * beyond) / (rate[0] * root + rate[2]);
  }
};

struct Asgd {
  static constexpr std::string_view kName = "asgd";
  static constexpr std::array kState{"average"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    const T slope = g + rate[1] * w;
    w = rate[2] * w - rate[0] * slope;
    s[0] = rate[3] * s[0] + rate[4] * w;
  }
};

// Defazio et al. 2024: the gradient is taken between the iterates and their average.
struct ScheduleFreeSgd {
  static constexpr std::string_view kName = "schedule_free_sgd";
  static constexpr std::array kState{"iterate", "average"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[0] = s[0] - rate[0] * (g + rate[1] * w);
    s[1] = rate[4] * s[1] + rate[5] * s[0];
    w = rate[3] * s[0] + rate[2] * s[1];
  }
};

struct ScheduleFreeAdamW {
  static constexpr std::string_view kName = "schedule_free_adamw";
  static constexpr std::array kState{"iterate", "variance", "average"};
  template <class T>
  static void step(T& w, const T& g, T* s, const T* rate) {
    s[1] = rate[6] * s[1] + rate[7] * (g * g);
    s[0] = s[0] - rate[0] * (g / (square_root(s[1] * rate[8]) + rate[9]) + rate[1] * w);
    s[2] = rate[4] * s[2] + rate[5] * s[0];
    w = rate[3] * s[0] + rate[2] * s[2];
  }
};

}  // namespace etude::optimizer
