// SPDX-License-Identifier: Apache-2.0
// Finds an initial water level whose waves form a ring after a while, by gradients through hundreds
// of steps of a simulation. Writes water.png: the level at the beginning, on its way and at the
// end, and the target.
//   ./dev run shallow_water [SIZE [STEPS [UPDATES]]]
#include <cstdio>
#include <cstdlib>

#include "examples/physics/water.h"

using namespace etude;

int main(int argc, char** argv) try {
  const auto number = [&](int k, int64_t unless) {
    return argc > k ? std::atoll(argv[k]) : unless;
  };
  const int64_t n = number(1, 128), steps = number(2, 256), updates = number(3, 150);
  const Tensor target = ring(n);

  // Value and gradient are one graph: a loop of `steps` steps forward, and one back.
  const auto slope = function([&](const Tensor& start) {
    return value_with_gradient(
        [&](const Tensor& s) { return loss_after(steps, by_slices, s, target); }, start);
  });
  Tensor start = zeros({n, n});
  optim::Adam adam({.lr = 0.05});
  float first = 0, last = 0;
  for (int64_t k = 0; k < updates; ++k) {
    const auto [loss, gradient] = slope(start);
    adam.update(start, gradient);
    last = loss.item<float>();
    if (k == 0) first = last;
    if (k % 10 == 0)
      std::printf("update %3lld  mean squared error %.6f\n", static_cast<long long>(k), last);
  }

  std::vector<Tensor> pictures = {start};
  Water water{start, start};
  for (int64_t k = 1; k <= steps; ++k) {
    water = by_slices(water);
    if (k == steps / 2 || k == steps) pictures.push_back(water.now);
  }
  pictures.push_back(target);
  io::write_png("water.png", io::image_grid(0.5F + 0.5F * stack(pictures), {.columns = 4}));
  std::printf("error %.6f, %.4f of what it was\n", last, last / first);
} catch (const Error& error) {
  std::fprintf(stderr, "shallow_water: %s\n", error.what());
  return 1;
}
