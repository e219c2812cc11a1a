// SPDX-License-Identifier: Apache-2.0
// Autoencoders on Fashion-MNIST, of rows of numbers (784-128-64-12-2 and back) and of images (three
// convolutions and back). Writes autoencoder.png: test images, and their reconstructions by each of
// the two.
//   ./dev run autoencoder [EPOCHS]
#include <cstdio>
#include <cstdlib>

#include "etude/etude.h"

using namespace etude;

Tensor image_of(const Tensor& x) { return reshape(x, {-1, 28, 28, 1}); }

struct OfNumbers {
  nn::MLP down{{784, 128, 64, 12, 2}}, up{{2, 12, 64, 128, 784}, {.last = nn::sigmoid}};
  Tensor operator()(const Tensor& images) const {
    return image_of(up(down(flatten(images, {.start = 1}))));
  }
};
const nn::ConvOptions kHalf{.strides = 2, .padding = "same", .activation = nn::relu};
const nn::TransposedConvOptions kTwice{.strides = 2, .padding = "same", .activation = nn::relu};

// 28, 14, 7, 4 pixels a side, and back; 4 by 4 by 8 numbers between.
struct OfImages {
  nn::Conv2D down1{3, 1, 16, kHalf}, down2{3, 16, 8, kHalf}, down3{3, 8, 8, kHalf};
  nn::TransposedConv2D up1{3, 8, 8, kTwice}, up2{3, 8, 8, kTwice}, up3{3, 8, 16, kTwice};
  nn::Conv2D output{3, 16, 1, {.padding = "same", .activation = nn::sigmoid}};
  Tensor operator()(const Tensor& images) const {
    const Tensor eight = up1(nn::sequenced(images, down1, down2, down3));
    return nn::sequenced(slice(eight, {0, 0, 0}, {eight.shape()[0], 7, 7}), up2, up3, output);
  }
};

Tensor distance(const Tensor& said, const Tensor& images) {
  return nn::mean_squared_error(said, images);
}

// Trains `model`, and returns its reconstructions of the test images.
template <class Model>
Tensor train(const char* name, Model model, const data::FashionMnist& images, int64_t epochs) {
  data::Loader batches(images.train, {.batch = 128, .seed = 1});
  optim::Adam adam({.lr = optim::cosine(3e-3, epochs * batches.steps_per_epoch())});
  const auto step = function([](Model& m, optim::Adam& optimizer, const Tensor& x) {
    const auto [cost, slopes] =
        value_with_gradient([&](const Model& now) { return distance(now(x), x); }, m);
    optimizer.update(m, slopes);
    return cost;
  });
  const Tensor test = slice(images.test.inputs, {0}, {64});
  const float first = distance(model(test), test).template item<float>();
  for (int64_t k = 0; k < epochs * batches.steps_per_epoch(); ++k)
    step(model, adam, batches.next().inputs);
  const Tensor back = model(test);
  std::printf("%s: mean squared error %.4f, then %.4f\n", name, first,
              distance(back, test).template item<float>());
  return reshape(slice(back, {0}, {16}), {16, 28, 28});
}

int main(int argc, char** argv) try {
  const int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 6;
  set_seed(1);
  const data::FashionMnist images = data::fashion_mnist();
  const Tensor some = reshape(slice(images.test.inputs, {0}, {16}), {16, 28, 28});
  const Tensor by_numbers = train("numbers", OfNumbers(), images, epochs);
  const Tensor by_images = train("images", OfImages(), images, epochs);
  io::write_png("autoencoder.png",
                io::image_grid(concat({some, by_numbers, by_images}), {.columns = 16}));
} catch (const Error& error) {
  std::fprintf(stderr, "autoencoder: %s\n", error.what());
  return 1;
}
