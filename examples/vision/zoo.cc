// SPDX-License-Identifier: Apache-2.0
// Counts the parameters and products of published models, without memory for their weights. Then
// trains a small one for a few steps. With MODEL it lists the layers of that model.
//   ./dev run zoo [MODEL]
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "etude/etude.h"

using namespace etude;
namespace zoo = nn::models;

const Shape kImage = {1, 224, 224, 3};
const TensorSpec kText = {{1, 128}, kInt32};

template <class Make>
std::function<nn::Summary()> of(const Make& make, const TensorSpec& input = {kImage}) {
  return [=] { return nn::summary_of(make, input); };
}

const std::map<std::string, std::function<nn::Summary()>> kModels = {
    {"mobilenet", of([] { return zoo::mobilenet(); })},
    {"mobilenet .25", of([] { return zoo::mobilenet({.width = 0.25}); })},
    {"mobilenet v2", of([] { return zoo::mobilenet_v2(); })},
    {"shufflenet v2", of([] { return zoo::shufflenet_v2(); })},
    {"squeezenet 1.1", of([] { return zoo::squeezenet("1.1"); })},
    {"efficientnet b0", of([] { return zoo::efficientnet(0); })},
    {"efficientnet b8", of([] { return zoo::efficientnet(8); }, {{1, 672, 672, 3}})},
    {"resnet 50", of([] { return zoo::resnet(50); })},
    {"resnet v2 50", of([] { return zoo::resnet_v2(50); })},
    {"resnet 56 cifar", of([] { return zoo::resnet_cifar(56); }, {{1, 32, 32, 3}})},
    {"wide resnet 28", of([] { return zoo::wide_resnet_cifar(28, 10); }, {{1, 32, 32, 3}})},
    {"big transfer 50", of([] { return zoo::big_transfer(50); })},
    {"densenet 121", of([] { return zoo::densenet(121); })},
    {"xception", of([] { return zoo::xception(); }, {{1, 299, 299, 3}})},
    {"vgg 16", of([] { return zoo::vgg(16); })},
    {"c3d", of([] { return zoo::C3D(); }, {{1, 16, 112, 112, 3}})},
    {"bert base", of([] { return zoo::bert("base"); }, kText)},
    {"roberta base", of([] { return zoo::roberta("base"); }, kText)},
    {"albert base", of([] { return zoo::albert("base"); }, kText)},
    {"electra small", of([] { return zoo::electra("small"); }, kText)},
    {"gpt2 small", of([] { return zoo::gpt2("small"); }, kText)},
};

int main(int argc, char** argv) try {
  if (argc > 1) {
    if (!kModels.contains(argv[1])) throw Error(ErrorCode::kNotFound, "there is no such model");
    std::puts(kModels.at(argv[1])().to_string().c_str());
    return 0;
  }
  std::puts("model               parameters   products (10^9)  layers");
  for (const auto& [name, summary] : kModels) {
    const nn::Summary s = summary();
    std::printf("%-16s  %12lld   %15.2f  %6zu\n", name.c_str(),
                static_cast<long long>(s.parameters), static_cast<double>(s.flops) / 2e9,
                s.layers.size());
  }
  set_seed(1);
  nn::ConvNet net = zoo::mobilenet_v2({.classes = 4, .width = 0.25});
  const PhaseScope training(Phase::kTraining);
  const Tensor images = random::normal({8, 64, 64, 3}), labels = Tensor({0, 1, 2, 3, 0, 1, 2, 3});
  const auto cost = [&](const nn::ConvNet& m) {
    return nn::softmax_cross_entropy(m(images), labels);
  };
  optim::Adam adam({.lr = 2e-3});
  std::vector<float> costs;
  for (int k = 0; k < 12; ++k) {
    const auto [value, slopes] = value_with_gradient(cost, net);
    adam.update(net, slopes);
    costs.push_back(value.item<float>());
  }
  std::printf("mobilenet v2 .25 learns eight images by heart: loss %.3f, then %.3f\n",
              costs.front(), costs.back());
} catch (const Error& error) {
  std::fprintf(stderr, "zoo: %s\n", error.what());
  return 1;
}
