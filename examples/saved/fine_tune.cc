// SPDX-License-Identifier: Apache-2.0
// Loads the features that pretrain.cc saved, without their source, and trains them further, with a
// new head, on six other directions. The result is saved as a function again, and
// `etude run FOLDER --function classify --input images.npy` runs it.
//   ./dev run fine_tune PRETRAINED FOLDER [STEPS]
#include <cstdio>
#include <cstdlib>

#include "etude/saved/saved.h"
#include "examples/vision/stripes.h"

using namespace etude;

namespace {

float accuracy(const Tensor& scores, const Tensor& labels) {
  const Tensor said = astype(argmax(scores, {.axis = 1}), kInt32);
  return mean(astype(said == labels, kFloat32)).item<float>();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: fine_tune PRETRAINED FOLDER [STEPS]\n"), 2;
  const int64_t steps = argc > 3 ? std::atoll(argv[3]) : 100;
  set_seed(2);
  const saved::Program program = saved::load(argv[1]);
  std::printf("%s", program.to_string().c_str());
  const saved::Function body = program.function("features");
  const auto features = body.as<Tensor(const Tensor&)>();
  const std::vector<Variable> weights = body.trainable_variables();

  nn::Dense head(32, 6, {.weight_init = nn::zeros});
  optim::Adam for_head({.lr = 1e-2}), for_body({.lr = 1e-3});
  const data::Samples few = stripes(120, 6, 16), test = stripes(300, 6, 16);
  const auto classify =
      function([&](const nn::Dense& h, const Tensor& images) { return h(features(images)); },
               {.name = "classify", .arg_names = {"head", "images"}});
  std::printf("before: accuracy %.3f\n",
              static_cast<double>(accuracy(classify(head, test.inputs), test.labels)));
  for (int64_t k = 0; k < steps; ++k) {
    const auto cost = [&](const nn::Dense& h, const std::vector<Variable>&) {
      return nn::softmax_cross_entropy(classify(h, few.inputs), few.labels);
    };
    const auto [of_head, of_body] = gradient(cost, head, weights);
    for_head.update(head, of_head);
    saved::update(for_body, weights, of_body);
  }
  std::printf("after %lld steps on 120 images: accuracy %.3f\n", static_cast<long long>(steps),
              static_cast<double>(accuracy(classify(head, test.inputs), test.labels)));
  saved::save(argv[2], {{"classify", saved::bind(classify, head)}, {"base", program}},
              {.signatures = {"classify"}});
} catch (const Error& error) {
  std::fprintf(stderr, "fine_tune: %s\n", error.what());
  return 1;
}
