// SPDX-License-Identifier: Apache-2.0
// Balances the pole of cart_pole.cc by proximal policy optimisation (Schulman et al., 2017). Each
// batch of steps is used ten times, while the policy must stay near the policy that made the steps.
//   ./dev run ppo [UPDATES]
#include <cstdio>
#include <cstdlib>

#include "examples/control/experience.h"

using namespace cart;

constexpr int64_t kEpochs = 10;
constexpr float kClip = 0.2F;

Tensor loss(const Agent& agent, const Experience& e) {
  const Tensor ratio = exp(log_chance(agent, e.state, e.push) - e.chance);
  const Tensor near = clip(ratio, {.min = Tensor(1 - kClip), .max = Tensor(1 + kClip)});
  const Tensor better = mean(minimum(ratio * e.advantage, near * e.advantage));
  const Tensor all = nn::log_softmax(agent.logits(e.state));
  return 0.5F * mean(square(agent.value(e.state) - e.goal)) - better +
         0.01F * mean(sum(exp(all) * all, {.axis = {1}}));
}

int main(int argc, char** argv) try {
  const int updates = argc > 1 ? std::atoi(argv[1]) : 60;
  set_seed(2);
  Agent agent;
  optim::Adam adam({.lr = 3e-4});
  io::Curve curve{"steps", {}};
  const auto learn = function([](Agent& now, optim::Adam& optimizer, const Experience& e) {
    const auto slopes = gradient([&](const Agent& a) { return loss(a, e); }, now);
    optimizer.update(now, slopes);
  });
  Tensor state = begin(kCarts);
  for (int k = 0; k <= updates; ++k) {
    if (k % 5 == 0) {
      curve.x.push_back(static_cast<float>(k));
      curve.y.push_back(stood(agent));
      std::printf("update %3d  poles stand %.1f steps\n", k, curve.y.back());
    }
    const Experience e = gather(agent, state);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) learn(agent, adam, e);
  }
  io::write_svg(
      "ppo.svg", {curve},
      {.title = "Proximal policy optimisation", .x = "update", .y = "steps that poles stand"});
  std::printf("after %d updates poles stand %.1f of 200 steps\n", updates, stood(agent));
} catch (const Error& error) {
  std::fprintf(stderr, "ppo: %s\n", error.what());
  return 1;
}
