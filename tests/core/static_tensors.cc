// SPDX-License-Identifier: Apache-2.0
// Tensors of static objects, made before main() and read after it: the library serves both.
// spec: IM-13.b
#include <cstdio>

#include "etude/etude.h"

using namespace etude;

namespace {

struct Holder {
  Tensor weight = full({300, 300}, 2.0F);
  Variable count = Variable(1.0F);
  ~Holder() {
    count.assign_add(sum(matmul(weight, weight)));
    const Tensor slope = gradient([](const Tensor& w) { return sum(w * w); }, weight);
    const Tensor one =
        linalg::solve(weight + 300.0F * eye(300), sum(weight + 300.0F * eye(300), {.axis = 1}));
    std::printf("after main: %g %g %g\n", static_cast<double>(count.read().item<float>()),
                static_cast<double>(slope.at(0, 0).item<float>()),
                static_cast<double>(one.at(0).item<float>()));
  }
};

Holder first;

}  // namespace

int main() {
  static Holder second;
  first.weight = second.weight * 0.5F;
  return 0;
}
