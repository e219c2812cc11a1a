// SPDX-License-Identifier: Apache-2.0
// A generative adversarial network (Goodfellow et al., 2014): an artist makes images from random
// numbers, and learns from a critic, which learns to distinguish them from real images. Used by
// gan.cc and dcgan.cc, which define the two networks.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "etude/etude.h"

namespace adversaries {

using namespace etude;

constexpr int64_t kBatch = 32;

inline Tensor leaky(const Tensor& x) { return nn::leaky_relu(x, {.slope = 0.2}); }

// The loss of the critic's verdicts against the label `real`: 1 for real images, 0 for made ones.
inline Tensor distance(const Tensor& said, double real) {
  return nn::sigmoid_cross_entropy(said, full_like(said, real));
}

// Both learn from Fashion-MNIST, [n, 28, 28, 1] in [0, 1]. Writes NAME.png: images of the same
// numbers after each sixth of the training, row by row.
template <class Artist, class Critic>
void compete(const std::string& name, Artist artist, Critic critic, int64_t latent, int64_t steps) {
  const data::FashionMnist images = data::fashion_mnist();
  data::Loader batches(images.train, {.batch = kBatch, .seed = 2});
  optim::Adam for_artist({.lr = 2e-4, .beta1 = 0.5}), for_critic({.lr = 2e-4, .beta1 = 0.5});
  // One graph: the critic from real and made images, the artist from the critic.
  const auto step = function(
      [latent](Artist& g, Critic& c, optim::Adam& of_g, optim::Adam& of_c, const Tensor& real) {
        const PhaseScope training(Phase::kTraining);
        // Gradients by both networks, so that the state updates of all batch norms are taken. Each
        // optimiser uses its part, and the graph drops the rest.
        const auto said = [&](const Critic& by, const Artist& of) {
          return by(of(random::normal({kBatch, latent})));
        };
        const auto [mistakes, of_both] = value_with_gradient(
            [&](const Critic& m, const Artist& a) {
              return distance(m(real), 0.9) + distance(said(m, a), 0);
            },
            c, g);
        of_c.update(c, std::get<0>(of_both));
        const auto [caught, by_both] = value_with_gradient(
            [&](const Critic& m, const Artist& a) { return distance(said(m, a), 1); }, c, g);
        of_g.update(g, std::get<1>(by_both));
        return std::pair(mistakes, caught);
      });
  const Tensor noise = random::normal({16, latent});
  std::vector<Tensor> rows;
  for (int64_t k = 1; k <= steps; ++k) {
    const auto [mistakes, caught] =
        step(artist, critic, for_artist, for_critic, batches.next().inputs);
    if (k % (steps / 6) != 0) continue;
    rows.push_back(reshape(artist(noise), {16, 28, 28}));
    std::printf("step %5lld  critic %.3f  artist %.3f\n", static_cast<long long>(k),
                mistakes.template item<float>(), caught.template item<float>());
  }
  io::write_png(name + ".png", io::image_grid(concat(rows), {.columns = 16}));
  const Tensor real = mean(images.test.inputs, {.axis = {0}});
  const Tensor made = mean(artist(random::normal({500, latent})), {.axis = {0}});
  std::printf("mean image: %.3f away from the real one\n",
              mean(abs(real - made)).template item<float>());
}

}  // namespace adversaries
