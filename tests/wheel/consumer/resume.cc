// SPDX-License-Identifier: Apache-2.0
// Resumes a training that a Python program (first_run.py) has begun: resume CHECKPOINT MODEL.
#include <cstdio>

#include "etude/etude.h"

using namespace etude;

using Net = nn::Sequential<nn::Conv2D, nn::AvgPool2D, nn::Conv2D, nn::AvgPool2D, nn::Flatten,
                           nn::Dense, nn::Dense, nn::Dense>;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const data::FashionMnist images = data::fashion_mnist();
  const data::Samples samples{.inputs = images.train.inputs.at(slice(0, 2000)),
                              .labels = images.train.labels.at(slice(0, 2000))};
  Net model(nn::Conv2D({5, 5}, 1, 6, {.padding = "same", .activation = nn::relu}), nn::AvgPool2D(2),
            nn::Conv2D({5, 5}, 6, 16, {.activation = nn::relu}), nn::AvgPool2D(2), nn::Flatten(),
            nn::Dense(400, 120, {.activation = nn::relu}),
            nn::Dense(120, 84, {.activation = nn::relu}), nn::Dense(84, 10));
  optim::Adam optimizer({.lr = 1e-3});
  data::Loader loader(samples, {.batch = 100, .seed = 1});
  io::load_checkpoint(argv[1], model, optimizer, loader);
  std::printf("resumes at epoch %lld, batch %lld\n",
              static_cast<long long>(loader.position().epoch),
              static_cast<long long>(loader.position().step));
  nn::fit(model, optimizer, loader, nn::softmax_cross_entropy, {.epochs = 2});
  io::save(model, argv[2]);
}
