// SPDX-License-Identifier: Apache-2.0
// A variational autoencoder, 784-400-20, on Fashion-MNIST (Kingma and Welling, 2014). Writes
// vae.png: test images, their reconstruction from 20 numbers, and images made of random numbers.
//   ./dev run vae [EPOCHS]
#include <cstdio>
#include <cstdlib>

#include "etude/etude.h"

using namespace etude;

struct Code {
  Tensor mean, log_variance;
};

struct Vae {
  nn::Dense hidden{784, 400, {.activation = nn::relu}}, to_mean{400, 20}, to_log_variance{400, 20};
  nn::Dense from_code{20, 400, {.activation = nn::relu}}, to_logits{400, 784};

  Code encode(const Tensor& images) const {
    const Tensor h = hidden(flatten(images, {.start = 1}));
    return {to_mean(h), to_log_variance(h)};
  }
  Tensor decode(const Tensor& code) const { return to_logits(from_code(code)); }
};

// The loss of an image: the bits of its pixels given the code, and the bits of the code itself.
Tensor loss(const Vae& vae, const Tensor& images) {
  const auto [mean, log_variance] = vae.encode(images);
  const Tensor noise = random::normal(mean.shape());
  const Tensor logits = vae.decode(mean + exp(0.5F * log_variance) * noise);
  const Tensor pixels =
      nn::sigmoid_cross_entropy(logits, flatten(images, {.start = 1}), {.reduction = "sum"});
  const Tensor code = -0.5F * sum(1.0F + log_variance - square(mean) - exp(log_variance));
  return (pixels + code) / static_cast<float>(images.shape()[0]);
}

Tensor as_images(const Tensor& logits) { return reshape(nn::sigmoid(logits), {-1, 28, 28}); }

int main(int argc, char** argv) try {
  const int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 10;
  set_seed(1);
  const data::FashionMnist images = data::fashion_mnist();
  data::Loader batches(images.train, {.batch = 128, .seed = 1});
  Vae vae;
  optim::Adam adam({.lr = 1e-3});

  // Draws, gradients and the update are one graph; vae and adam are in and out.
  const auto step = function([](Vae& model, optim::Adam& optimizer, const Tensor& inputs) {
    const auto [cost, slopes] =
        value_with_gradient([&](const Vae& m) { return loss(m, inputs); }, model);
    optimizer.update(model, slopes);
    return cost;
  });
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    nn::Mean cost;
    for (int64_t k = 0; k < batches.steps_per_epoch(); ++k)
      cost.update(step(vae, adam, batches.next().inputs).item<float>());
    std::printf("epoch %2lld  loss %.2f\n", static_cast<long long>(epoch + 1), cost.result());
  }
  const Tensor some = slice(images.test.inputs, {0}, {16});
  std::printf("test loss %.2f\n", loss(vae, images.test.inputs).item<float>());
  const Tensor made = as_images(vae.decode(random::normal({16, 20})));
  const Tensor back = as_images(vae.decode(vae.encode(some).mean));
  io::write_png("vae.png",
                io::image_grid(concat({reshape(some, {16, 28, 28}), back, made}), {.columns = 16}));
} catch (const Error& error) {
  std::fprintf(stderr, "vae: %s\n", error.what());
  return 1;
}
