// SPDX-License-Identifier: Apache-2.0
// A training step as a workload: forward, gradients of all parameters, plain SGD.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "benchmarks/workloads/workload.h"
#include "etude/autodiff/gradient.h"
#include "etude/optim/sgd.h"
#include "etude/stage/function.h"

namespace etude::bench {

enum class Mode { kEager, kStaged };

struct NoState {};

// The model is a plain struct of tensors. `loss` returns the loss of a model, and may change a
// state that is its second argument. The check compares the losses of the first three steps.
template <class Model, class Loss, class State>
class Training final : public Instance {
 public:
  Training(Model model, double rate, Loss loss, Mode mode, State state)
      : model_(std::move(model)),
        state_(std::move(state)),
        sgd_({.lr = rate}),
        loss_(std::move(loss)),
        mode_(mode) {}

  std::vector<double> check() override {
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step().template item<double>());
    return losses;
  }
  void run() override { keep(step()); }

 private:
  Tensor step() {
    return mode_ == Mode::kStaged ? staged_(model_, state_, sgd_) : change(model_, state_, sgd_);
  }
  Tensor change(Model& model, State& state, optim::SGD& sgd) const {
    const auto loss_of = [&](const Model& m) {
      if constexpr (std::is_same_v<State, NoState>) {
        return loss_(m);
      } else {
        return loss_(m, state);
      }
    };
    auto [loss, grads] = value_with_gradient(loss_of, model);
    sgd.update(model, grads);
    return loss;
  }

  Model model_;
  State state_;
  optim::SGD sgd_;
  Loss loss_;
  Mode mode_;
  Function<Tensor(Model&, State&, optim::SGD&)> staged_ = function(
      [this](Model& model, State& state, optim::SGD& sgd) { return change(model, state, sgd); });
};

template <class Model, class Loss, class State = NoState>
std::unique_ptr<Instance> training(Model model, double rate, Loss loss, Mode mode,
                                   State state = {}) {
  return std::make_unique<Training<Model, Loss, State>>(std::move(model), rate, std::move(loss),
                                                        mode, std::move(state));
}

// A workload whose instance is made by make(mode).
template <class Make>
Workload in_both_modes(std::string name, std::vector<double> expected, Make make,
                       double tolerance = Workload().tolerance) {
  return {.name = std::move(name),
          .expected = std::move(expected),
          .tolerance = tolerance,
          .make = [make] { return make(Mode::kEager); },
          .staged = [make] { return make(Mode::kStaged); }};
}

}  // namespace etude::bench
