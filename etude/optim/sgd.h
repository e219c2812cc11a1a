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
  double weight_decay = 0;  // weight_decay * parameter is added to the gradient
  double dampening = 0;     // of the gradient in v

  static constexpr void ranges(const auto& option) {
    option("lr", &SGDOptions::lr, at_least(0));
    option("momentum", &SGDOptions::momentum, up_to(0, 1));
    option("decay", &SGDOptions::decay, at_least(0));
    option("weight_decay", &SGDOptions::weight_decay, at_least(0));
    option("dampening", &SGDOptions::dampening, within(0, 1));
  }
};

// g += weight_decay w;  v = momentum v + (1 - dampening) g;  w -= lr v.
// With nesterov, w -= lr (g + momentum v). In the first update, and if momentum is 0, v = g.
class SGD : public internal::OptimizerWith<SGDOptions> {
 public:
  // throws: kInvalidArgument for an option out of its range, and for nesterov without momentum.
  explicit SGD(SGDOptions options = {}, CallSite where = CallSite::here());

  using OptimizerWith::options;
  // All options except nesterov may change between updates. A momentum of 0 must remain 0, and a
  // momentum above 0 must remain above 0.
  SGDOptions& options() { return options_; }

 private:
  ETUDE_FIELDS(SGD, slots_);
};

}  // namespace optim
}  // namespace etude
