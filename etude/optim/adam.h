// SPDX-License-Identifier: Apache-2.0
// Adam, AdamW and AMSGrad: steps scaled by running means of gradients and of their squares.
#pragma once

#include "etude/optim/optimizer.h"
#include "etude/optim/schedule.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

struct AdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;         // lr / (1 + decay * updates done)
  double weight_decay = 0;  // added to the gradient, times the parameter
  bool amsgrad = false;     // divide by the highest variance so far
};

// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
// w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
//
// A value: a copy goes on by itself. threads: thread-compatible.
class Adam {
 public:
  explicit Adam(AdamOptions options = {}) : Adam(std::move(options), false) {}

  // Moves every tensor of `model` by its gradient, in place. `gradients` is the tangent of the
  // model; where it is absent the tensor stays.
  //
  // throws: kInvalidArgument, with the path, for gradients that do not fit the model.
  // cost:   one pass over each parameter; after the first update nothing of their size is
  // allocated.
  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where = CallSite::here()) {
    update_all(internal::pair_up(model, gradients, updates() == 0 || restored_), where);
  }

  const AdamOptions& options() const { return options_; }
  AdamOptions& options() { return options_; }
  std::int64_t updates() const { return slots_.updates(); }
  // The rate of the next update.
  double rate() const;

  State state() const { return slots_.state(); }
  // throws: kInvalidArgument for the state of another kind of optimiser.
  void restore(State state);

 protected:
  Adam(AdamOptions options, bool decoupled);

 private:
  void update_all(const std::vector<internal::Parameter>& parameters, CallSite where);
  Tensor rates(double lr) const;

  AdamOptions options_;
  bool decoupled_;
  internal::Slots slots_;
  bool restored_ = false;
};

struct AdamWOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double weight_decay = 0.01;  // w -= lr weight_decay w, before the step of Adam
  bool amsgrad = false;
};

// Adam with weight decay beside the gradient.
class AdamW : public Adam {
 public:
  explicit AdamW(AdamWOptions options = {})
      : Adam({.lr = std::move(options.lr),
              .beta1 = options.beta1,
              .beta2 = options.beta2,
              .eps = options.eps,
              .decay = options.decay,
              .weight_decay = options.weight_decay,
              .amsgrad = options.amsgrad},
             true) {}
};

}  // namespace optim
}  // namespace etude
