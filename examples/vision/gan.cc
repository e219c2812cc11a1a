// SPDX-License-Identifier: Apache-2.0
// A artist that learns from a critic to make images of clothing out of 64 random numbers
// (Goodfellow et al., 2014). Writes gan.png: images after each part of the training, row by row.
//   ./dev run gan [STEPS]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kLatent = 64, kBatch = 32;

Tensor leaky(const Tensor& x) { return nn::leaky_relu(x, {.slope = 0.2}); }

struct Artist {
  nn::Dense a{kLatent, 128, {.activation = leaky}}, b{128, 256, {.activation = leaky}};
  nn::Dense c{256, 512, {.activation = leaky}}, d{512, 784, {.activation = nn::sigmoid}};
  Tensor operator()(const Tensor& noise) const { return nn::sequenced(noise, a, b, c, d); }
};
struct Critic {
  nn::Dense a{784, 256, {.activation = leaky}}, b{256, 128, {.activation = leaky}}, c{128, 1};
  Tensor operator()(const Tensor& images) const { return nn::sequenced(images, a, b, c); }
};

// How far the critic is from calling all of these `real` (1) or made (0).
Tensor distance(const Tensor& said, double real) {
  return nn::sigmoid_cross_entropy(said, full_like(said, real));
}

int main(int argc, char** argv) try {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 12000;
  set_seed(2);
  const data::FashionMnist images = data::fashion_mnist();
  data::Epochs batches(images.train, {.batch = kBatch, .seed = 2});
  Artist artist;
  Critic critic;
  optim::Adam for_artist({.lr = 2e-4, .beta1 = 0.5}), for_critic({.lr = 2e-4, .beta1 = 0.5});

  // Both learn in one graph: the critic from real and made images, the artist from the critic.
  const auto step =
      function([](Artist& g, Critic& c, optim::Adam& of_g, optim::Adam& of_c, const Tensor& real) {
        const Tensor made = g(random::normal({kBatch, kLatent}));
        const auto [mistakes, by_critic] = value_with_gradient(
            [&](const Critic& m) { return distance(m(real), 0.9) + distance(m(made), 0); }, c);
        of_c.update(c, by_critic);
        const Tensor noise = random::normal({kBatch, kLatent});
        const auto [caught, by_artist] =
            value_with_gradient([&](const Artist& m) { return distance(c(m(noise)), 1); }, g);
        of_g.update(g, by_artist);
        return std::pair(mistakes, caught);
      });

  const Tensor noise = random::normal({16, kLatent});
  std::vector<Tensor> rows;
  for (int64_t k = 1; k <= steps; ++k) {
    const Tensor real = flatten(batches.next().inputs, {.start = 1});
    const auto [mistakes, caught] = step(artist, critic, for_artist, for_critic, real);
    if (k % (steps / 6) != 0) continue;
    rows.push_back(reshape(artist(noise), {16, 28, 28}));
    std::printf("step %5lld  critic %.3f  artist %.3f\n", static_cast<long long>(k),
                mistakes.item<float>(), caught.item<float>());
  }
  io::write_png("gan.png", io::image_grid(concat(rows), {.columns = 16}));
  const Tensor real = mean(images.test.inputs, {.axis = {0, 3}});
  const Tensor made =
      mean(reshape(artist(random::normal({500, kLatent})), {500, 28, 28}), {.axis = {0}});
  std::printf("mean image: %.3f away from the real one\n", mean(abs(real - made)).item<float>());
} catch (const Error& error) {
  std::fprintf(stderr, "gan: %s\n", error.what());
  return 1;
}
