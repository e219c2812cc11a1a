// SPDX-License-Identifier: Apache-2.0
// The only error for a refused gradient is its reason, whatever the use of its results.
// spec: G11
// error: a field has no tangent type; make it Differentiable or wrap it in etude::NoDerivative<>
#include <memory>
#include <string>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/optim/sgd.h"

using etude::Tensor;

struct Net {
  std::shared_ptr<Tensor> weight;
};

float step(Net& net, etude::optim::SGD& optimizer) {
  auto [loss, slopes] = etude::value_with_gradient([](const Net& n) { return *n.weight; }, net);
  optimizer.update(net, slopes);
  const std::vector<float> all = loss.to_vector<float>();
  const Tensor first = slopes.at(0) * 0.5, value = loss;
  const std::string text(loss.to_string());
  if (!loss.has_value() || loss.rank() != 0 || loss.size() != 1) return all[0];
  return loss.item<float>() + first.item<float>();
}
