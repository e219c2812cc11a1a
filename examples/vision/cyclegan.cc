// SPDX-License-Identifier: Apache-2.0
// Turns trousers into dresses and dresses into trousers, learned without pairs (Zhu et al., 2017):
// each critic sees real images of one kind, and both ways together must restore the image. Writes
// cyclegan.png: trousers, the dresses made of them, and the trousers restored; then the same for
// dresses.
//   ./dev run cyclegan [STEPS]
#include <cstdio>
#include <cstdlib>

#include "examples/vision/painter.h"

using namespace painting;

struct Painters {
  Painter to_dress, to_trousers;
};
struct Critics {
  Critic dress, trousers;
};

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1500;
  set_seed(1);
  const data::FashionMnist images = data::fashion_mnist();
  const Tensor trousers = clothing(images.train, 1), dresses = clothing(images.train, 3);
  Painters painters;
  Critics critics;
  optim::Adam for_painters({.lr = 1e-3, .beta1 = 0.5}), for_critics({.lr = 2e-4, .beta1 = 0.5});
  const auto step = function([](Painters& p, Critics& c, optim::Adam& of_p, optim::Adam& of_c,
                                const Tensor& t, const Tensor& d) {
    const Tensor made_d = p.to_dress(t), made_t = p.to_trousers(d);
    const auto mistakes = [&](const Critics& m) {
      return off(m.dress(d), 1) + off(m.dress(made_d), 0) + off(m.trousers(t), 1) +
             off(m.trousers(made_t), 0);
    };
    of_c.update(c, gradient(mistakes, c));
    const auto cost = [&](const Painters& m) {
      const Tensor now_d = m.to_dress(t), now_t = m.to_trousers(d);
      const Tensor caught = off(c.dress(now_d), 1) + off(c.trousers(now_t), 1);
      return caught + 5.0F * (apart(m.to_trousers(now_d), t) + apart(m.to_dress(now_t), d));
    };
    of_p.update(p, gradient(cost, p));
  });
  const auto some = [&](const Tensor& x) {
    return take(x, random::randint({kBatch}, 0, x.shape()[0]), {.axis = 0});
  };
  for (int k = 0; k < steps; ++k) {
    const Tensor few_trousers = some(trousers), few_dresses = some(dresses);
    step(painters, critics, for_painters, for_critics, few_trousers, few_dresses);
  }

  const Tensor t = first(clothing(images.test, 1), 12), d = first(clothing(images.test, 3), 12);
  const Tensor made_d = painters.to_dress(t), made_t = painters.to_trousers(d);
  const Tensor back_t = painters.to_trousers(made_d), back_d = painters.to_dress(made_t);
  std::printf("there and back: trousers %.4f away, dresses %.4f\n", apart(back_t, t).item<float>(),
              apart(back_d, d).item<float>());
  std::printf("dresses made of trousers: %.4f away from these\n", apart(made_d, t).item<float>());
  io::write_png("cyclegan.png",
                io::image_grid(concat({t, made_d, back_t, d, made_t, back_d}), {.columns = 12}));
} catch (const Error& error) {
  std::fprintf(stderr, "cyclegan: %s\n", error.what());
  return 1;
}
