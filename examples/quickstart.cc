// SPDX-License-Identifier: Apache-2.0
// The program of the README: LeNet on Fashion-MNIST in 25 lines.
#include <cstdio>

#include "etude/etude.h"

using namespace etude;

struct LeNet {
  nn::Conv2D conv1{{5, 5}, 1, 6, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D conv2{{5, 5}, 6, 16, {.activation = nn::relu}};
  nn::MaxPool2D pool{2};
  nn::Dense fc1{400, 120, {.activation = nn::relu}}, fc2{120, 84, {.activation = nn::relu}};
  nn::Dense fc3{84, 10};

  Tensor operator()(const Tensor& image) const {
    return fc3(fc2(fc1(flatten(pool(conv2(pool(conv1(image)))), {.start = 1}))));
  }
};

int main() {
  const data::FashionMnist images = data::fashion_mnist();
  data::Loader loader(images.train, {.batch = 128, .seed = 1});
  LeNet model;
  optim::AdamW optimizer({.lr = optim::cosine(3e-3, 10 * loader.steps_per_epoch())});
  const auto& loss = nn::softmax_cross_entropy;
  nn::fit(model, optimizer, loader, loss, {.epochs = 10, .callbacks = {nn::progress()}});
  const auto result = nn::evaluate(model, data::batches(images.test, 500), loss);
  std::printf("test accuracy %.4f\n", result.accuracy);
}
