// SPDX-License-Identifier: Apache-2.0
// A cellular automaton whose rule is a small network learns to grow a picture from one cell
// (Mordvintsev, Randazzo, Niklasson and Levin, 2020). Writes growing.png: stages of the growth,
// then the target.
//   ./dev run growing [UPDATES]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/automata/automaton.h"

using namespace automata;

Tensor seed() {
  Tensor cells = zeros({kBatch, kSize, kSize, kChannels});
  cells.at(kEllipsis, kSize / 2, kSize / 2, Slice(3, {})) = 1.0F;
  return cells;
}

// A flower of six petals around a yellow middle, as [n, n, 4].
Tensor flower() {
  const Tensor x = astype(linspace(-1.25, 1.25, kSize), kFloat32);
  const Tensor across = broadcast_to(expand_dims(x, {0}), {kSize, kSize}),
               down = matrix_transpose(across);
  const Tensor radius = sqrt(square(across) + square(down)), turn = atan2(down, across);
  const Tensor there = astype(radius < 0.62F + 0.3F * cos(6.0F * turn), kFloat32);
  const Tensor middle = astype(radius < 0.32F, kFloat32);
  return stack({there, there * 0.85F * middle, there * (1.0F - middle) * 0.45F, there},
               {.axis = -1});
}

int main(int argc, char** argv) try {
  const int64_t updates = argc > 1 ? std::atoll(argv[1]) : 400;
  set_seed(5);
  const Tensor filter = perception(), target = flower(), start = seed();
  Automaton automaton;
  optim::Adam adam({.lr = optim::cosine(2e-3, updates)});
  const auto step = function([&](Automaton& model, optim::Adam& optimizer) {
    const auto cost = [&](const Automaton& m) {
      const auto grow = [&](const Tensor& cells, const Tensor&) { return m(cells, filter); };
      const Tensor cells = fold(grow, start, arange(kSteps));
      return mean(square(slice(cells, {0, 0, 0, 0}, {kBatch, kSize, kSize, 4}) - target));
    };
    const auto [loss, slopes] = value_with_gradient(cost, model);
    optimizer.update(model, slopes);
    return loss;
  });
  float loss = 0;
  for (int64_t k = 0; k < updates; ++k) {
    loss = step(automaton, adam).item<float>();
    if (k % 20 == 0)
      std::printf("update %3lld  mean squared error %.5f\n", static_cast<long long>(k), loss);
  }
  std::vector<Tensor> pictures;
  Tensor cells = start;
  const auto picture = [](const Tensor& c) {
    return slice(c, {0, 0, 0}, {kSize, kSize, 3}) + 1.0F - slice(c, {0, 0, 3}, {kSize, kSize, 4});
  };
  for (int64_t k = 0; k <= kSteps; ++k) {
    if (k % 8 == 0) pictures.push_back(picture(cells.at(0)));
    cells = automaton(cells, filter);
  }
  pictures.push_back(picture(target));
  io::write_png("growing.png", io::image_grid(stack(pictures), {.columns = 8}));
  std::printf("mean squared error %.5f after %lld updates\n", loss,
              static_cast<long long>(updates));
} catch (const Error& error) {
  std::fprintf(stderr, "growing: %s\n", error.what());
  return 1;
}
