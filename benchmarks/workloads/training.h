// SPDX-License-Identifier: Apache-2.0
// A training step as a workload: forward, gradients of all parameters, plain SGD.
#pragma once

#include <utility>
#include <vector>

#include "benchmarks/workloads/workload.h"
#include "etude/runtime/gradient.h"

namespace etude::bench {

// The model is a plain struct of tensors; `loss` gives the loss of one. The check is the losses of
// the first three steps.
template <class Model, class Loss>
class Training final : public Instance {
 public:
  Training(Model model, double rate, Loss loss)
      : model_(std::move(model)), rate_(rate), loss_(std::move(loss)) {}

  std::vector<double> check() override {
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step().template item<double>());
    return losses;
  }
  void run() override { keep(step()); }

 private:
  Tensor step() {
    auto [loss, grads] = value_with_gradient(loss_, model_);
    move(model_, scaled(std::move(grads), -rate_));
    return loss;
  }

  Model model_;
  double rate_;
  Loss loss_;
};

template <class Model, class Loss>
std::unique_ptr<Instance> training(Model model, double rate, Loss loss) {
  return std::make_unique<Training<Model, Loss>>(std::move(model), rate, std::move(loss));
}

}  // namespace etude::bench
