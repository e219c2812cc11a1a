// SPDX-License-Identifier: Apache-2.0
// Gradient descent, optionally with momentum.
#pragma once

#include "etude/optim/internal/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

struct SGDOptions {
  Schedule lr = 0.01;
  double momentum = 0;
  double decay = 0;  // lr / (1 + decay * updates done)
  bool nesterov = false;
  double weight_decay = 0;  // times the parameter, added to the gradient
  double dampening = 0;     // of the gradient in the velocity, except in the first update

  static constexpr void ranges(const auto& option) {
    option("lr", &SGDOptions::lr, at_least(0));
    option("momentum", &SGDOptions::momentum, up_to(0, 1));
    option("decay", &SGDOptions::decay, at_least(0));
    option("weight_decay", &SGDOptions::weight_decay, at_least(0));
    option("dampening", &SGDOptions::dampening, within(0, 1));
  }
};

// g += weight_decay w;  v = momentum v + (1 - dampening) g  (v = g in the first update);
// w -= lr v, or with nesterov w -= lr (g + momentum v).
class SGD : public internal::OptimizerWith<SGDOptions> {
 public:
  // throws: kInvalidArgument for an option out of its range, and for nesterov without momentum.
  explicit SGD(SGDOptions options = {}, CallSite where = CallSite::here());

  using OptimizerWith::options;
  // The options may change between updates, except nesterov and whether there is momentum.
  SGDOptions& options() { return options_; }

 private:
  ETUDE_FIELDS(SGD, slots_);
};

}  // namespace optim
}  // namespace etude
