// SPDX-License-Identifier: Apache-2.0
// With ETUDE_TIER=2 the function becomes machine code. A layer of one's own updates its state.
#include <cstdio>

#include "etude/etude.h"

struct Counted {
  etude::Tensor weight = etude::Tensor({2.0F, 3.0F});
  etude::LayerState<etude::Tensor> calls = etude::Tensor(0.0F);
  etude::Tensor operator()(const etude::Tensor& x) const {
    update_state(calls, "Counted", [](const etude::Tensor& n) { return n + 1.0F; });
    return weight * x;
  }
};

int main() {
  const auto f = etude::function([](const etude::Tensor& x) { return tanh(x) * x + 0.5F; });
  if (f(etude::Tensor({1.0F, 2.0F})).shape() != etude::Shape{2}) return 1;
  Counted layer;
  etude::optim::SGD sgd;
  sgd.update(layer, etude::gradient([](const Counted& c) { return sum(c(c.weight)); }, layer));
  if (layer.calls.value.item<float>() != 1) return 1;
  std::printf("%s", to_string(etude::compiler_report()).c_str());
}
