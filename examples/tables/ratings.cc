// SPDX-License-Identifier: Apache-2.0
// Predicts which items a user likes, by neural matrix factorisation (He et al., 2017): products of
// 8 factors of user and item, and an MLP 32-16-8 of 16 further factors of each. Tastes of users and
// items are hidden. The test ranks one liked item of each user among 50 others.
//   ./dev run ratings [EPOCHS]
#include <cstdio>
#include <cstdlib>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kUsers = 400, kItems = 200, kOthers = 50;

struct Pair {
  Tensor user, item;
};
struct Model {
  nn::Embedding user_factors{kUsers, 8}, item_factors{kItems, 8};
  nn::Embedding user_code{kUsers, 16}, item_code{kItems, 16};
  nn::MLP mlp{{32, 16, 8}, {.last = nn::relu}};
  nn::Dense output{16, 1};
  Tensor operator()(const Pair& x) const {
    const Tensor product = user_factors(x.user) * item_factors(x.item);
    const Tensor joined = concat({user_code(x.user), item_code(x.item)}, {.axis = -1});
    return squeeze(output(concat({product, mlp(joined)}, {.axis = -1})), {-1});
  }
};

int main(int argc, char** argv) try {
  const int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 12;
  set_seed(1);
  // A user likes the 20 items that are nearest to the own taste, in four dimensions.
  const Tensor tastes = random::normal({kUsers, 4}), kinds = random::normal({kItems, 4});
  const Tensor fit = matmul(tastes, kinds, {.transpose_y = true});
  const Tensor order = astype(argsort(fit, {.axis = 1, .descending = true}), kInt32);
  const Tensor users =
      broadcast_to(expand_dims(arange(kUsers, {.dtype = kInt32}), {1}), {kUsers, 20});
  const Tensor liked = slice(order, {0, 0}, {kUsers, 20});
  const Tensor kept = slice(liked, {0, 7}, {kUsers, 8});  // for the test
  const Tensor known =
      concat({slice(liked, {0, 0}, {kUsers, 7}), slice(liked, {0, 8}, {kUsers, 20})}, {.axis = 1});
  const Tensor some = slice(users, {0, 0}, {kUsers, 19});
  data::Loader batches(Pair{flatten(some), flatten(known)}, {.batch = 200, .seed = 1});

  Model model;
  optim::Adam adam({.lr = 5e-3});
  // Each liked item comes with four random items, most of which are not liked.
  const auto step = [&](const Pair& batch) {
    const Tensor user = concat(std::vector<Tensor>(5, batch.user), {.axis = 0});
    const Tensor item = concat({batch.item, random::randint({800}, 0, kItems)}, {.axis = 0});
    const Tensor likes = concat({ones({200}), zeros({800})}, {.axis = 0});
    const auto loss = [&](const Model& m) {
      return nn::sigmoid_cross_entropy(m({user, item}), likes);
    };
    const auto [cost, slopes] = value_with_gradient(loss, model);
    adam.update(model, slopes);
    return cost.item<float>();
  };
  // The share of users whose kept item is among the three first, of 51.
  const auto hits = [&] {
    const Tensor others = random::randint({kUsers, kOthers}, 20, kItems);
    const Tensor items = concat({kept, take_along_axis(order, others, {.axis = 1})}, {.axis = 1});
    const Tensor who = broadcast_to(slice(users, {0, 0}, {kUsers, 1}), {kUsers, kOthers + 1});
    const Tensor said = model({who, items});
    const Tensor first = slice(said, {0, 0}, {kUsers, 1});
    const Tensor before = sum(astype(said > first, kInt32), {.axis = {1}});
    return mean(astype(before < 3, kFloat32)).item<float>();
  };
  const float before = hits();
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    nn::Mean cost;
    for (int64_t k = 0; k < batches.steps_per_epoch(); ++k) cost.update(step(batches.next()));
    std::printf("epoch %2lld  loss %.4f\n", static_cast<long long>(epoch + 1), cost.result());
  }
  std::printf("among the first three of 51: %.3f at first, %.3f in the end\n", before, hits());
} catch (const Error& error) {
  std::fprintf(stderr, "ratings: %s\n", error.what());
  return 1;
}
