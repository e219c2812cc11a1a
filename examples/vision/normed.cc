// SPDX-License-Identifier: Apache-2.0
// LeNet with batch normalisation and dropout on Fashion-MNIST, trained by fit, and by a
// hand-written loop that makes the same model. Each is as accurate in evaluation as in its last
// epoch of training.
//   ./dev run normed [EPOCHS]
#include <cstdio>
#include <cstdlib>

#include "etude/etude.h"

using namespace etude;

struct Net {
  nn::Conv2D conv1{5, 1, 6, {.padding = "same", .bias = false}}, conv2{5, 6, 16, {.bias = false}};
  nn::BatchNorm norm1{6}, norm2{16};
  nn::MaxPool2D pool{2};
  nn::Dropout drop{0.3};
  nn::Dense fc1{400, 120, {.activation = nn::relu}}, fc2{120, 84, {.activation = nn::relu}};
  nn::Dense output{84, 10};
  Tensor operator()(const Tensor& images) const {
    const Tensor first = pool(nn::relu(norm1(conv1(images))));
    const Tensor second = pool(nn::relu(norm2(conv2(first))));
    return output(drop(fc2(drop(fc1(flatten(second, {.start = 1}))))));
  }
};

struct Training {
  int64_t epochs;
  data::Loader<data::Samples> batches;
  Net net = {};
  optim::AdamW adam{{.lr = optim::cosine(3e-3, epochs* batches.steps_per_epoch())}};
};

// The training accuracy of the last epoch.
double by_fit(Training& t) {
  const auto& loss = nn::softmax_cross_entropy;
  return nn::fit(t.net, t.adam, t.batches, loss, {.epochs = t.epochs}).epochs.back().accuracy;
}

double by_hand(Training& t) {
  double right = 0;
  while (t.batches.position().epoch < t.epochs) {
    const bool is_last = t.batches.position().epoch == t.epochs - 1;
    const auto batch = t.batches.next();
    const PhaseScope training(Phase::kTraining);
    const auto loss_of = [&](const Net& net) {
      const Tensor said = net(batch.inputs);
      const Tensor hits = astype(argmax(said, {.axis = 1}) == batch.labels, kFloat32);
      if (is_last) right += sum(hits).item<double>();
      return nn::softmax_cross_entropy(said, batch.labels);
    };
    t.adam.update(t.net, value_with_gradient(loss_of, t.net).second);
  }
  return right / static_cast<double>(t.batches.steps_per_epoch() * 64);
}

int main(int argc, char** argv) try {
  const int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 5;
  const data::FashionMnist images = data::fashion_mnist();
  for (const bool is_fit : {true, false}) {
    set_seed(1);
    Training training{epochs, data::Loader(images.train, {.batch = 64, .seed = 1})};
    const double last = is_fit ? by_fit(training) : by_hand(training);
    const auto accuracy = [&](const data::Samples& of) {
      return nn::evaluate(training.net, data::batches(of, 500), nn::softmax_cross_entropy).accuracy;
    };
    std::printf("by %s: accuracy %.4f while training, %.4f on its images, %.4f on others\n",
                is_fit ? "fit" : "hand", last, accuracy(images.train), accuracy(images.test));
  }
} catch (const Error& error) {
  std::fprintf(stderr, "normed: %s\n", error.what());
  return 1;
}
