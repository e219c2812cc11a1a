// SPDX-License-Identifier: Apache-2.0
// A cart learns to balance a pole by the gradient of its policy (Williams, 1992). Episodes run in
// parallel, as rows of tensors. Writes cart_pole.svg: the length of the episodes, by update.
//   ./dev run cart_pole [UPDATES]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/control/cart.h"

using namespace cart;

constexpr int64_t kEpisodes = 32, kMostSteps = 200;
constexpr float kDiscount = 0.99F;

struct Policy {
  nn::Dense hidden{4, 128, {.activation = nn::relu}}, push{128, 2};
  Tensor operator()(const Tensor& state) const { return nn::sequenced(state, hidden, push); }
};

struct Episodes {
  Tensor states, pushes, alive;  // [steps, episodes, ..]
};
Episodes play(const Policy& policy) {
  std::vector<Tensor> states, pushes, alive;
  Tensor state = begin(kEpisodes);
  Tensor up = ones({kEpisodes});
  while (std::ssize(states) < kMostSteps && max(up).item<float>() > 0) {
    states.push_back(state);
    alive.push_back(up);
    pushes.push_back(random::categorical(policy(state)));
    state = advance(state, pushes.back());
    up *= stands(state);
  }
  return {stack(states), stack(pushes), stack(alive)};
}

// The policy gradient: minus the log chance of each push, times the steps that followed it above
// the average.
Tensor loss(const Policy& policy, const Episodes& e) {
  const Tensor steps = astype(reshape(arange(e.alive.shape()[0]), {-1, 1}), kFloat32);
  const Tensor weight = pow(Tensor(kDiscount), steps), count = sum(e.alive);
  const Tensor left = cumulative_sum(e.alive * weight, {.axis = 0, .reverse = true}) / weight;
  const Tensor better = (left - sum(left * e.alive) / count) * e.alive;
  const Tensor advantage = better / (sqrt(sum(square(better)) / count) + 1e-6F);
  return nn::softmax_cross_entropy(policy(e.states), e.pushes, {.reduction = "none"}) * advantage /
         count;
}

int main(int argc, char** argv) try {
  const int64_t updates = argc > 1 ? std::atoll(argv[1]) : 150;
  set_seed(3);
  Policy policy;
  optim::Adam adam({.lr = 0.01});
  io::Curve curve{"steps", {}};
  for (int64_t k = 0; k < updates && (curve.y.empty() || curve.y.back() < 195); ++k) {
    const Episodes episodes = play(policy);
    curve.y.push_back(sum(episodes.alive).item<float>() / kEpisodes);
    adam.update(policy, gradient([&](const Policy& p) { return sum(loss(p, episodes)); }, policy));
    if (k % 5 == 0)
      std::printf("update %3lld  mean length %.1f\n", static_cast<long long>(k), curve.y.back());
  }
  io::write_svg("cart_pole.svg", {curve},
                {.title = "Cart and pole", .x = "update", .y = "steps that it stood"});
  std::printf("after %zu updates poles stand %.1f of %lld steps\n", curve.y.size(), curve.y.back(),
              static_cast<long long>(kMostSteps));
} catch (const Error& error) {
  std::fprintf(stderr, "cart_pole: %s\n", error.what());
  return 1;
}
