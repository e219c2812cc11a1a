// SPDX-License-Identifier: Apache-2.0
// The element-wise parts of transforms (optim/transforms.h), in the form of optimizer_rules.h. The
// parameter w is the state of the transform. As rules they write in place, in the same calls as the
// steps of the optimiser.
#pragma once

#include <string_view>
#include <tuple>

#include "etude/kernels/cpu/optimizer/rule_parts.h"

namespace etude::optimizer {

// The sum of n-th parts of gradients.
struct Accumulate {
  static constexpr std::string_view kName = "accumulate";
  struct Options {};
  template <class T>
  struct Rates {
    T n;
  };
  template <class T>
  using State = NoState<T>;
  template <class T>
  static void step(T& w, const T& g, State<T>&, const Rates<T>& rate) {
    w = w + g / rate.n;
  }
};

// The sum begins again.
struct Restart : Accumulate {
  static constexpr std::string_view kName = "restart";
  template <class T>
  static void step(T& w, const T&, State<T>&, const Rates<T>&) {
    w = zero_like(w);
  }
};

// For g, the weights after the step:
struct Ema : Accumulate {
  static constexpr std::string_view kName = "ema";
  template <class T>
  struct Rates {
    T decay, fresh;
  };
  template <class T>
  static void step(T& w, const T& g, State<T>&, const Rates<T>& rate) {
    w = rate.decay * w + rate.fresh * g;
  }
};

// The mean of n weights.
struct Swa : Accumulate {
  static constexpr std::string_view kName = "swa";
  template <class T>
  static void step(T& w, const T& g, State<T>&, const Rates<T>& rate) {
    w = w + (g - w) / rate.n;
  }
};

struct Lookahead : Accumulate {
  static constexpr std::string_view kName = "lookahead";
  template <class T>
  struct Rates {
    T alpha;
  };
  template <class T>
  static void step(T& w, const T& g, State<T>&, const Rates<T>& rate) {
    w = w + rate.alpha * (g - w);
  }
};

using TransformRules = std::tuple<Accumulate, Restart, Ema, Swa, Lookahead>;

}  // namespace etude::optimizer
