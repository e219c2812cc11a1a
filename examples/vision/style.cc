// SPDX-License-Identifier: Apache-2.0
// Fast style transfer (Johnson, Alahi and Fei-Fei, 2016): a network learns to paint clothing in the
// style of waves. The features of its picture must equal the features of the clothing, and their
// products, summed over the picture, the products of the waves. Features come from random filters,
// so no trained network is needed. Writes style.png: images, the style, and the painted images.
//   ./dev run style [STEPS]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/vision/eye.h"

using namespace seeing;

constexpr int64_t kBatch = 8;

struct Painter {
  nn::Conv2D in{5, 1, 16, {.padding = "same"}}, down{3, 16, 32, {.strides = 2, .padding = "same"}};
  nn::InstanceNorm norm1{16}, norm2{32}, norm3{32}, norm4{16};
  nn::Conv2D inner{3, 32, 32, {.padding = "same"}}, up{3, 32, 16, {.padding = "same"}};
  nn::UpSampling2D twice{2};
  nn::Conv2D out{5, 16, 3, {.padding = "same", .activation = nn::sigmoid}};
  Tensor operator()(const Tensor& images) const {
    const Tensor half = nn::relu(norm2(down(nn::relu(norm1(in(images))))));
    const Tensor seen = half + nn::relu(norm3(inner(half)));
    return out(nn::relu(norm4(up(twice(seen)))));
  }
};

// Waves in two colours.
Tensor waves() {
  const Tensor at = astype(arange(28), kFloat32);
  const Tensor x = expand_dims(at, {0}), y = expand_dims(at, {1});
  const Tensor wave = 0.5F + 0.5F * sin(1.3F * y + 2.0F * sin(0.45F * x));
  return expand_dims(
      stack({0.15F + 0.8F * wave, 0.35F + 0.4F * wave, 0.9F - 0.6F * wave}, {.axis = 2}), {0});
}

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 400;
  set_seed(1);
  const data::FashionMnist images = data::fashion_mnist();
  data::Loader batches(images.train, {.batch = kBatch, .seed = 1});
  const Eye eye;
  const Tensor style = waves();
  std::vector<Tensor> wanted;
  for (const Tensor& features : eye(style)) wanted.push_back(gram(features));
  const auto grey = [](const Tensor& x) { return concat({x, x, x}, {.axis = 3}); };
  Painter painter;
  optim::Adam adam({.lr = 3e-3});
  const auto cost = [&](const Painter& p, const Tensor& x) {
    const std::vector<Tensor> said = eye(p(x)), is = eye(grey(x));
    Tensor by_style = Tensor(0.0F);
    for (size_t k = 0; k < said.size(); ++k)
      by_style += mean(square(gram(said[k]) - wanted[k])) / mean(square(wanted[k]));
    return std::pair(by_style, mean(square(said[1] - is[1])) / mean(square(is[1])));
  };
  const auto step = function([&](Painter& p, optim::Adam& optimizer, const Tensor& x) {
    const auto both = [&](const Painter& now) {
      const auto [a, b] = cost(now, x);
      return 5.0F * a + 0.3F * b;
    };
    optimizer.update(p, gradient(both, p));
  });
  const Tensor some = slice(images.test.inputs, {0}, {kBatch});
  const auto before = cost(painter, some);
  for (int k = 0; k < steps; ++k) step(painter, adam, batches.next().inputs);
  const auto after = cost(painter, some);
  std::printf("style: %.3f away, then %.3f; clothing: %.3f away, then %.3f\n",
              before.first.item<float>(), after.first.item<float>(), before.second.item<float>(),
              after.second.item<float>());
  const Tensor shown =
      concat({grey(some), broadcast_to(style, {kBatch, 28, 28, 3}), painter(some)});
  io::write_png("style.png", io::image_grid(shown, {.columns = kBatch}));
} catch (const Error& error) {
  std::fprintf(stderr, "style: %s\n", error.what());
  return 1;
}
