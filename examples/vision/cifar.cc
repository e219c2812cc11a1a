// SPDX-License-Identifier: Apache-2.0
// A small convolutional network, or a ResNet, on colour images of 32 by 32: CIFAR-10 if its folder
// is given, else stripes in ten directions. Prints the number of images per second.
//   ./dev run cifar [convnet|DEPTH [EPOCHS [FOLDER]]]     a depth is 8, 20, 56, ..
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "examples/vision/stripes.h"

using namespace etude;

struct Net {
  nn::Conv2D conv1{3, 3, 32, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D conv2{3, 32, 32, {.activation = nn::relu}};
  nn::Conv2D conv3{3, 32, 64, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D conv4{3, 64, 64, {.activation = nn::relu}};
  nn::MaxPool2D pool{2};
  nn::Dropout some{0.25}, half{0.5};
  nn::Flatten flatten;
  nn::Dense dense{2304, 512, {.activation = nn::relu}}, output{512, 10};
  Tensor operator()(const Tensor& images) const {
    const Tensor seen = nn::sequenced(images, conv1, conv2, pool, some, conv3, conv4, pool, some);
    return nn::sequenced(seen, flatten, dense, half, output);
  }
};

const auto& loss = nn::softmax_cross_entropy;

template <class Model>
void throughput(Model model, const data::Samples& train, int64_t batch) {
  optim::SGD sgd({.lr = 1e-3, .momentum = 0.9});
  data::Loader batches(train, {.batch = batch, .seed = 1});
  const auto step = function([](Model& m, optim::SGD& optimizer, const data::Samples& b) {
    const PhaseScope training(Phase::kTraining);
    const auto [cost, slopes] =
        value_with_gradient([&](const Model& x) { return loss(x(b.inputs), b.labels, {}); }, m);
    optimizer.update(m, slopes);
    return cost;
  });
  const auto run = [&] { return step(model, sgd, batches.next()).template item<float>(); };
  run();  // traces and compiles
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < 3; ++k) run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("batches of %3lld: %.0f images a second\n", static_cast<long long>(batch),
              static_cast<double>(3 * batch) / seconds.count());
}

template <class Model>
void train(Model model, const data::Cifar10& images, int64_t epochs) {
  std::printf("%lld parameters\n",
              static_cast<long long>(nn::summary(model, {1, 32, 32, 3}).parameters));
  for (const int64_t batch : {10, 128}) throughput(model, images.train, batch);
  data::Loader batches(images.train, {.batch = 32, .seed = 1});
  optim::AdamW adam({.lr = optim::cosine(2e-3, epochs * batches.steps_per_epoch())});
  nn::fit(model, adam, batches, loss, {.epochs = epochs, .mode = nn::Mode::kStaged});
  const auto result = nn::evaluate(model, data::batches(images.test, 100), loss);
  std::printf("test accuracy %.4f\n", result.accuracy);
}

int main(int argc, char** argv) try {
  const std::string net = argc > 1 ? argv[1] : "convnet";
  const int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 4;
  set_seed(1);
  const data::Cifar10 images =
      argc > 3 ? data::cifar10({argv[3]}) : data::Cifar10{stripes(4000), stripes(1000)};
  if (net == "convnet") {
    train(Net(), images, epochs);
  } else {
    train(nn::models::resnet_cifar(std::atoi(net.c_str())), images, epochs);
  }
} catch (const Error& error) {
  std::fprintf(stderr, "cifar: %s\n", error.what());
  return 1;
}
