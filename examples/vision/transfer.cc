// SPDX-License-Identifier: Apache-2.0
// Transfer (Kolesnikov et al., 2019): a ResNet with group norms and standardised filters learns ten
// directions of stripes. Its unchanged body with a new head then learns six other directions from
// few examples. An untrained body is the comparison.
//   ./dev run transfer [STEPS]
#include <cstdio>
#include <cstdlib>

#include "examples/vision/stripes.h"

using namespace etude;

// Big transfer begins with halves of images of 224 by 224; these have 32 by 32.
nn::ConvNet small_net() {
  const nn::ConvUnitOptions unit{
      .norm = "group", .norm_first = true, .standardize = true, .activation = nn::relu};
  nn::ConvUnitOptions first = unit, down = unit;
  first.norm = "none", first.stride = 2, down.stride = 2;
  using Block = nn::ConvBlock;
  return nn::ConvNet{
      {Block({{nn::ConvUnit(3, 32, first)}}),
       Block({{nn::ConvUnit(32, 32, unit), nn::ConvUnit(32, 32, unit)}}, {.keeps_input = true}),
       Block({{nn::ConvUnit(32, 64, down), nn::ConvUnit(64, 64, unit)}}, {.keeps_input = true}),
       Block({{nn::ConvUnit(64, 64, down), nn::ConvUnit(64, 64, unit)}}, {.keeps_input = true}),
       Block({{nn::ConvUnit::plain(64, unit)}})},
      {nn::Dense(64, 10)}};
}

template <class Model>
float accuracy(const Model& model, const Tensor& inputs, const Tensor& labels) {
  const Tensor said = astype(argmax(model(inputs), {.axis = 1}), kInt32);
  return mean(astype(said == labels, kFloat32)).template item<float>();
}

// Trains a new head on the body's features of a few images, and returns its accuracy.
float transfer(const nn::ConvNet& body, const data::Samples& few, const data::Samples& test) {
  const Tensor seen = body.features(few.inputs), of_test = body.features(test.inputs);
  const Tensor centre = mean(seen, {.axis = {0}}), spread = etude::std(seen, {.axis = {0}}) + 1e-3F;
  nn::Dense head(64, 6, {.weight_init = nn::zeros});
  optim::SGD sgd({.lr = 0.1, .momentum = 0.9});
  for (int k = 0; k < 100; ++k) {
    sgd.update(head, gradient(
                         [&](const nn::Dense& h) {
                           return nn::softmax_cross_entropy(h((seen - centre) / spread),
                                                            few.labels);
                         },
                         head));
  }
  return accuracy(head, (of_test - centre) / spread, test.labels);
}

int main(int argc, char** argv) try {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 120;
  set_seed(1);
  const data::Samples test = stripes(300), few = stripes(60, 6), test_of_few = stripes(300, 6);
  nn::ConvNet net = small_net();
  const nn::ConvNet nothing = net;
  data::Loader batches(stripes(2000), {.batch = 32, .seed = 1});
  optim::SGD sgd({.lr = optim::cosine(0.03, steps), .momentum = 0.9});
  const auto step = function([](nn::ConvNet& m, optim::SGD& optimizer, const data::Samples& b) {
    const auto cost = [&](const nn::ConvNet& x) {
      return nn::softmax_cross_entropy(x(b.inputs), b.labels);
    };
    optimizer.update(m, gradient(cost, m));
  });
  for (int64_t k = 0; k < steps; ++k) step(net, sgd, batches.next());
  std::printf("ten directions: accuracy %.3f\n", accuracy(net, test.inputs, test.labels));
  std::printf("six others from 60 images: accuracy %.3f, with a body that learned nothing %.3f\n",
              transfer(net, few, test_of_few), transfer(nothing, few, test_of_few));
} catch (const Error& error) {
  std::fprintf(stderr, "transfer: %s\n", error.what());
  return 1;
}
