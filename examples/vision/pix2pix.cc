// SPDX-License-Identifier: Apache-2.0
// Turns edges of clothing into clothing, learned from pairs (Isola et al., 2016): a result must be
// near the original, and a critic that sees edges and result must take it for real. Writes
// pix2pix.png: edges, the pictures made of them, and the originals.
//   ./dev run pix2pix [STEPS]
#include <cstdio>
#include <cstdlib>

#include "examples/vision/painter.h"

using namespace painting;

Tensor edges(const Tensor& x) {
  const Tensor across = abs(x - roll(x, 1, {.axis = {2}})),
               down = abs(x - roll(x, 1, {.axis = {1}}));
  return astype(maximum(across, down) > 0.25F, kFloat32);
}
Tensor beside(const Tensor& x, const Tensor& y) { return concat({x, y}, {.axis = 3}); }

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1200;
  set_seed(1);
  const data::FashionMnist images = data::fashion_mnist();
  data::Loader batches(images.train, {.batch = kBatch, .seed = 1});
  Painter painter;
  Critic critic{.a = {4, 2, 16, kDown}};
  optim::Adam for_painter({.lr = 1e-3, .beta1 = 0.5}), for_critic({.lr = 2e-4, .beta1 = 0.5});
  const auto step =
      function([](Painter& p, Critic& c, optim::Adam& of_p, optim::Adam& of_c, const Tensor& y) {
        const Tensor x = edges(y), made = p(x);
        const auto mistakes = [&](const Critic& m) {
          return off(m(beside(x, y)), 1) + off(m(beside(x, made)), 0);
        };
        of_c.update(c, gradient(mistakes, c));
        const auto cost = [&](const Painter& m) {
          const Tensor now = m(x);
          return off(c(beside(x, now)), 1) + 30.0F * apart(now, y);
        };
        of_p.update(p, gradient(cost, p));
      });
  const Tensor test = first(clothing(images.test), 100), drawn = edges(test);
  const float before = apart(painter(drawn), test).item<float>();
  for (int k = 0; k < steps; ++k)
    step(painter, critic, for_painter, for_critic, clothing(batches.next()));
  const Tensor made = painter(drawn);
  std::printf("pictures made of edges: %.4f away at first, %.4f in the end\n", before,
              apart(made, test).item<float>());
  io::write_png("pix2pix.png",
                io::image_grid(concat({first(drawn, 12), first(made, 12), first(test, 12)}),
                               {.columns = 12}));
} catch (const Error& error) {
  std::fprintf(stderr, "pix2pix: %s\n", error.what());
  return 1;
}
