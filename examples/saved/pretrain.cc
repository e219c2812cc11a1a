// SPDX-License-Identifier: Apache-2.0
// Trains a small network on ten directions of stripes, and saves its features as a function:
// fine_tune.cc trains them further without this source.
//   ./dev run pretrain FOLDER [STEPS]
#include <cstdio>
#include <cstdlib>

#include "etude/saved/saved.h"
#include "examples/vision/stripes.h"

using namespace etude;

namespace {

struct Body {
  nn::Conv2D first{{3, 3}, 3, 16, {.strides = 2, .padding = "same", .activation = nn::relu}};
  nn::Conv2D second{{3, 3}, 16, 32, {.strides = 2, .padding = "same", .activation = nn::relu}};
  nn::Dense wide{512, 32, {.activation = nn::relu}};
  Tensor operator()(const Tensor& images) const {
    return wide(flatten(second(first(images)), {.start = 1}));
  }
};

struct Net {
  Body body;
  nn::Dense head{32, 10};
  Tensor operator()(const Tensor& images) const { return head(body(images)); }
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: pretrain FOLDER [STEPS]\n"), 2;
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 300;
  set_seed(1);
  Net net;
  optim::Adam adam({.lr = 2e-3});
  data::Loader batches(stripes(2000, 10, 16), {.batch = 32, .seed = 1});
  const auto step = function([](Net& m, optim::Adam& optimizer, const data::Samples& b) {
    const auto [loss, slope] = value_with_gradient(
        [&](const Net& n) { return nn::softmax_cross_entropy(n(b.inputs), b.labels); }, m);
    optimizer.update(m, slope);
    return loss;
  });
  float loss = 0;
  for (int64_t k = 0; k < steps; ++k) loss = step(net, adam, batches.next()).item<float>();

  // Two sizes of a batch make one graph for all sizes.
  const auto features = function([](const Body& b, const Tensor& images) { return b(images); },
                                 {.name = "features", .arg_names = {"body", "images"}});
  features(net.body, zeros({2, 16, 16, 3}));
  features(net.body, zeros({5, 16, 16, 3}));
  saved::save(argv[1], {{"features", saved::bind(features, net.body)}},
              {.signatures = {"features"}});
  std::printf("loss %.3f after %lld steps; saved to %s\n", static_cast<double>(loss),
              static_cast<long long>(steps), argv[1]);
} catch (const Error& error) {
  std::fprintf(stderr, "pretrain: %s\n", error.what());
  return 1;
}
