// SPDX-License-Identifier: Apache-2.0
// Trains a model, and saves its functions to FOLDER; their results for later calls go to FILE. With
// a third argument, the model is also saved there as a checkpoint.
// Another process compares (saved_reader.cc).
#include <cstdio>
#include <exception>

#include "etude/etude.h"
#include "etude/saved/saved.h"

using namespace etude;

namespace {

struct Net {
  nn::Dense hidden{4, 8, {.activation = nn::relu}};
  nn::BatchNorm norm{8};
  nn::Dropout dropout{0.25};
  nn::Dense output{8, 3};
  Tensor operator()(const Tensor& x) const { return output(dropout(norm(hidden(x)))); }
};

Tensor train_step(Net& net, optim::Adam& adam, const Tensor& x, const Tensor& labels) {
  const PhaseScope training(Phase::kTraining);
  const auto [loss, slope] = value_with_gradient(
      [&](const Net& n) { return nn::softmax_cross_entropy(n(x), labels); }, net);
  adam.update(net, slope);
  return loss;
}

void write(const char* folder, const char* file, const char* checkpoint) {
  set_seed(1);
  Net net;
  optim::Adam adam({.lr = 1e-2});
  const auto predict = function([](const Net& n, const Tensor& x) { return nn::softmax(n(x)); },
                                {.name = "predict", .arg_names = {"net", "x"}});
  const auto train =
      function(train_step, {.name = "train", .arg_names = {"net", "adam", "x", "labels"}});
  const Tensor x = random::normal({8, 4});
  const Tensor labels(std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0, 1});
  for (int i = 0; i < 3; ++i) train(net, adam, x, labels);
  predict(net, x);
  predict(net, zeros({5, 4}));
  saved::save(folder,
              {{"predict", saved::bind(predict, net)}, {"train", saved::bind(train, net, adam)}},
              {.signatures = {"predict"}});
  if (checkpoint != nullptr) io::Checkpoint{{"net", net}}.write(checkpoint);
  io::NamedTensors values{{"x", x}, {"labels", labels}, {"scores", predict(net, x)}};
  set_seed(5);
  for (int i = 0; i < 3; ++i) {
    values.emplace("loss" + std::to_string(i), train(net, adam, x, labels));
  }
  values.emplace("trained", predict(net, x));
  values.emplace("one", predict(net, x.at(Slice(0, 1))));
  values.emplace("net/hidden/weight", net.hidden.weight);
  io::save_safetensors(file, values);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 || argc == 4) write(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return argc == 3 || argc == 4 ? 0 : 2;
}
