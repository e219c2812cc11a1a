// SPDX-License-Identifier: Apache-2.0
// Writes the models of the table of saved functions. saved-models FOLDER lenet writes the folder
// FOLDER/lenet of saved functions and the file FOLDER/lenet.onnx. All weights follow from one seed.
// Two training steps give batch normalisation statistics other than 0 and 1.
#include "etude/nn/models/models.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/saved/rows.h"
#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/saved.h"

using namespace etude;

namespace {

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

using Lstm = nn::Recurrent<nn::LSTMCell>;

Tensor input(const bench::SavedModel& model, int64_t batch) {
  const bench::SavedRow row{model, batch};
  return Tensor(row.input(), Shape(row.shape()));
}

class Writer {
 public:
  explicit Writer(std::string folder) : folder_(std::move(folder)) {}

  void write(const bench::SavedModel& facts) const {
    set_seed(1);
    if (facts.name == "lenet") {
      save_trained(facts, LeNet());
    } else if (facts.name == "resnet56") {
      save_trained(facts, nn::models::resnet_cifar(56));
    } else if (facts.name == "transformer") {
      // As the workload `transformer` of workloads/deep.cc.
      const auto gelu = [](const Tensor& x) { return nn::gelu(x, {.approximate = "tanh"}); };
      save(facts, nn::TransformerEncoderLayer(facts.example[1], 8, {.activation = gelu}));
    } else {
      save(facts, Lstm(nn::LSTMCell(facts.example[1], facts.example[1])));
    }
  }

 private:
  template <class Model>
  void save_trained(const bench::SavedModel& facts, Model model) const {
    optim::SGD sgd({.lr = 1e-3});
    const Tensor x = input(facts, 8), labels(bench::label_values<int32_t>(8));
    const auto loss = [&](const Model& m) { return nn::softmax_cross_entropy(m(x), labels); };
    for (int i = 0; i < 2; ++i) {
      const PhaseScope training(Phase::kTraining);
      sgd.update(model, gradient(loss, model));
    }
    save(facts, model);
  }
  // Saves a function of a batch of any size.
  template <class Model>
  void save(const bench::SavedModel& facts, const Model& model) const {
    const auto predict = function([](const Model& m, const Tensor& x) { return m(x); },
                                  {.arg_names = {"model", "x"}});
    for (const int64_t batch : {2, 3}) predict(model, input(facts, batch));
    const std::string stem = folder_ + "/" + facts.name;
    const saved::Bound bound = saved::bind(predict, model);
    saved::save(stem, {{"predict", bound}}, {.signatures = {"predict"}});
    onnx::save(stem + ".onnx", bound, {.opset = 21});
  }

  std::string folder_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  if (names.empty()) {
    std::fprintf(stderr, "usage: %s FOLDER MODEL...\n", argv[0]);
    return 2;
  }
  try {
    for (const bench::SavedModel& facts : bench::saved_models()) {
      if (std::ranges::count(names, facts.name) > 0) Writer(argv[1]).write(facts);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
