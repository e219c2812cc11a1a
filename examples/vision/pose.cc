// SPDX-License-Identifier: Apache-2.0
// Finds the joints of a figure like PersonLab (Papandreou et al., 2018): the probability of each
// joint in each square of 8 by 8 pixels, and its distance from the middle of the square. Writes
// pose.png: drawn figures, and the joints that were found.
//   ./dev run pose [STEPS]
#include <cstdio>
#include <cstdlib>

#include "examples/vision/figures.h"

using namespace figures;

// Three numbers for each square and joint: logit, and rows and columns from the middle.
nn::ConvBlock halved(int64_t in, int64_t out) {
  const nn::ConvUnitOptions unit{.momentum = 0.9, .activation = nn::relu};
  nn::ConvUnitOptions down = unit;
  down.stride = 2;
  return nn::ConvBlock({{nn::ConvUnit(in, out, down), nn::ConvUnit(out, out, unit)}});
}
struct Net {
  nn::ConvBlock a = halved(3, 12), b = halved(12, 24), c = halved(24, 48);
  nn::Conv2D output{3, 48, 3 * kJoints, {.padding = "same"}};
  Tensor operator()(const Tensor& images) const {
    const Tensor said = nn::sequenced(images, a, b, c, output);
    return reshape(said, {-1, kSquares * kSquares, kJoints, 3});
  }
};

Tensor part(const Tensor& said, int64_t from, int64_t to) {
  return slice(said, {0, 0, 0, from}, {said.shape()[0], kSquares * kSquares, kJoints, to});
}
Tensor loss(const Net& net, const Figures& f) {
  const Tensor said = net(f.images), square = square_of(f.joints);
  const Tensor logits = permute_dims(squeeze(part(said, 0, 1), {3}), {0, 2, 1});
  const Tensor is_there = permute_dims(one_hot(square, kSquares * kSquares), {0, 2, 1});
  const Tensor away = expand_dims(f.joints - middle_of(square), {1}) / 8.0F;
  const Tensor miss = sum(abs(part(said, 1, 3) - away), {.axis = {3}}) * astype(is_there, kFloat32);
  return nn::softmax_cross_entropy(logits, square) + mean(sum(miss, {.axis = {1}}));
}

Tensor find(const Net& net, const Tensor& images) {
  const Tensor said = net(images);
  const Tensor best = astype(argmax(part(said, 0, 1), {.axis = 1, .keepdims = true}), kInt32);
  const Tensor away = squeeze(take_along_axis(part(said, 1, 3), best, {.axis = 1}), {1});
  return middle_of(squeeze(best, {1, 3})) + 8.0F * away;
}

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  set_seed(1);
  Net net;
  optim::Adam adam({.lr = optim::cosine(4e-3, steps)});
  const auto step = function([](Net& m, optim::Adam& optimizer, const Figures& f) {
    const PhaseScope training(Phase::kTraining);
    const auto [cost, slopes] = value_with_gradient([&](const Net& x) { return loss(x, f); }, m);
    optimizer.update(m, slopes);
    return cost;
  });
  for (int k = 0; k < steps; ++k) {
    const float cost = step(net, adam, draw(32)).item<float>();
    if (k % 50 == 0) std::printf("step %3d  loss %.3f\n", k, cost);
  }
  const Figures test = draw(16);
  const Tensor found = find(net, test.images);
  Tensor marks = zeros({16, kSide, kSide});
  for (int64_t k = 0; k < kJoints; ++k) {
    const Tensor at = reshape(slice(found, {0, k}, {16, k + 1}), {16, 2});
    marks = maximum(marks, line(at, at, 1.6F));
  }
  const Tensor red = expand_dims(marks, {3}) * Tensor({1.0F, 0.0F, 0.0F});
  const Tensor seen = where(expand_dims(marks, {3}) > 0.0F, red, 0.4F * test.images);
  io::write_png("pose.png", io::image_grid(concat({test.images, seen}), {.columns = 8}));
  const Tensor miss = sqrt(sum(square(found - test.joints), {.axis = {2}}));
  std::printf("joints are found within %.2f pixels on average\n", mean(miss).item<float>());
} catch (const Error& error) {
  std::fprintf(stderr, "pose: %s\n", error.what());
  return 1;
}
