// SPDX-License-Identifier: Apache-2.0
// Checks the gradient of a loss of a whole model against a finite difference along the gradient.
#pragma once

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/autodiff/state_update.h"
#include "etude/base/structure.h"
#include "etude/ops.h"

namespace etude::tests {

// The model with `by` times its gradient added.
template <class Model>
Model moved_along(Model model, const std::map<std::string, Tensor>& slopes, double by) {
  for_each_leaf<Tensor>(model, [&](const std::string& path, Tensor& x) {
    const auto found = slopes.find(path);
    if (found != slopes.end()) x = x + found->second * by;
  });
  return model;
}

// Checks that the loss changes by 2 step if the model moves along its gradient from -step / g^2 to
// step / g^2, where g is the norm of the gradient. States of layers do not change.
template <class Model, class Loss>
void expect_gradient(const Model& model, const Loss& loss, double step = 2e-3,
                     double tolerance = 0.1) {
  const etude::internal::StateReplay nobody_takes_state({});
  std::map<std::string, Tensor> slopes;
  double square_sum = 0;
  const auto tangent = gradient(loss, model);
  for_each_leaf<Tensor>(tangent, [&](const std::string& path, const Tensor& t) {
    if (!t.has_value()) return;
    slopes[path] = t;
    square_sum += sum(square(t)).item<float>();
  });
  ASSERT_GT(square_sum, 0);
  const auto at = [&](double by) {
    return loss(moved_along(model, slopes, by / square_sum)).template item<float>();
  };
  EXPECT_NEAR((at(step) - at(-step)) / (2 * step), 1, tolerance);
}

}  // namespace etude::tests
