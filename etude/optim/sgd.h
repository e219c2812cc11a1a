// SPDX-License-Identifier: Apache-2.0
// Gradient descent, with momentum on request.
#pragma once

#include "etude/optim/optimizer.h"
#include "etude/optim/schedule.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

struct SGDOptions {
  Schedule lr = 0.01;
  double momentum = 0;
  double decay = 0;  // lr / (1 + decay * updates done)
  bool nesterov = false;
  double weight_decay = 0;  // added to the gradient, times the parameter
  double dampening = 0;     // of the gradient in the velocity, but for the first update
};

// g += weight_decay w;  v = momentum v + (1 - dampening) g  (v = g at first);
// w -= lr v, or with nesterov w -= lr (g + momentum v).
//
// A value: a copy goes on by itself. threads: thread-compatible.
class SGD {
 public:
  explicit SGD(SGDOptions options = {});

  // Moves every tensor of `model` against its gradient, in place. `gradients` is the tangent of the
  // model; where it is absent the tensor stays.
  //
  // throws: kInvalidArgument, with the path, for gradients that do not fit the model.
  // cost:   one pass over each parameter; after the first update nothing of their size is
  // allocated.
  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where = CallSite::here()) {
    update_all(internal::pair_up(model, gradients, updates() == 0 || restored_), where);
  }

  const SGDOptions& options() const { return options_; }
  SGDOptions& options() { return options_; }
  std::int64_t updates() const { return slots_.updates(); }
  // The rate of the next update.
  double rate() const;

  State state() const { return slots_.state(); }
  // throws: kInvalidArgument for the state of another kind of optimiser.
  void restore(State state);

 private:
  void update_all(const std::vector<internal::Parameter>& parameters, CallSite where);

  SGDOptions options_;
  internal::Slots slots_;
  bool restored_ = false;
};

}  // namespace optim
}  // namespace etude
