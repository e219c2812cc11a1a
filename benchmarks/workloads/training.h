// SPDX-License-Identifier: Apache-2.0
// A training step as a workload: forward, gradients of all parameters, plain SGD.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/workloads/workload.h"
#include "etude/runtime/function.h"
#include "etude/runtime/gradient.h"

namespace etude::bench {

enum class Mode { kEager, kStaged };

// The model is a plain struct of tensors; `loss` gives the loss of one. The check is the losses of
// the first three steps.
template <class Model, class Loss>
class Training final : public Instance {
 public:
  Training(Model model, double rate, Loss loss, Mode mode)
      : model_(std::move(model)), rate_(rate), loss_(std::move(loss)), mode_(mode) {}

  std::vector<double> check() override {
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step().template item<double>());
    return losses;
  }
  void run() override { keep(step()); }

 private:
  Tensor step() { return mode_ == Mode::kStaged ? staged_(model_) : change(model_); }
  Tensor change(Model& model) const {
    auto [loss, grads] = value_with_gradient(loss_, model);
    move(model, scaled(std::move(grads), -rate_));
    return loss;
  }

  Model model_;
  double rate_;
  Loss loss_;
  Mode mode_;
  Function<Tensor(Model&)> staged_ = function([this](Model& model) { return change(model); });
};

template <class Model, class Loss>
std::unique_ptr<Instance> training(Model model, double rate, Loss loss, Mode mode) {
  return std::make_unique<Training<Model, Loss>>(std::move(model), rate, std::move(loss), mode);
}

// A workload whose instance make(mode) gives.
template <class Make>
Workload in_both_modes(std::string name, std::vector<double> expected, Make make) {
  return {.name = std::move(name),
          .expected = std::move(expected),
          .make = [make] { return make(Mode::kEager); },
          .staged = [make] { return make(Mode::kStaged); }};
}

}  // namespace etude::bench
