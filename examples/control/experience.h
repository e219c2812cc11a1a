// SPDX-License-Identifier: Apache-2.0
// Steps of carts with poles, gathered by a policy with a value function. Used by ppo.cc.
#pragma once

#include <vector>

#include "examples/control/cart.h"

namespace cart {

constexpr int64_t kCarts = 32, kSteps = 64;
constexpr float kDiscount = 0.99F, kDecay = 0.95F;

struct Agent {
  nn::Dense hidden{4, 128, {.activation = nn::tanh}}, push{128, 2};
  nn::Dense seen{4, 128, {.activation = nn::tanh}}, worth{128, 1};
  Tensor logits(const Tensor& state) const { return push(hidden(state)); }
  Tensor value(const Tensor& state) const { return squeeze(worth(seen(state)), {-1}); }
};
struct Experience {
  Tensor state, push, chance, advantage, goal;  // [steps * carts, ..]; chance: its logarithm
};

inline Tensor log_chance(const Agent& agent, const Tensor& state, const Tensor& push) {
  const Tensor all = nn::log_softmax(agent.logits(state));
  return squeeze(take_along_axis(all, expand_dims(push, {-1}), {.axis = -1}), {-1});
}

// The mean number of steps, of 200, that poles stand if the agent takes its likeliest push.
inline float stood(const Agent& agent) {
  Tensor state = begin(kCarts), up = ones({kCarts}), steps = zeros({kCarts});
  for (int k = 0; k < 200; ++k) {
    steps += up;
    state = advance(state, argmax(agent.logits(state), {.axis = 1}));
    up *= stands(state);
  }
  return mean(steps).item<float>();
}

// Carts start from `state`. A cart whose pole falls starts again.
inline Experience gather(const Agent& agent, Tensor& state) {
  std::vector<Tensor> states, pushes, goes_on, values;
  for (int64_t k = 0; k < kSteps; ++k) {
    states.push_back(state);
    values.push_back(agent.value(state));
    pushes.push_back(random::categorical(agent.logits(state)));
    const Tensor next = advance(state, pushes.back());
    goes_on.push_back(stands(next));
    state = where(expand_dims(goes_on.back(), {1}) > 0.0F, next, begin(kCarts));
  }
  values.push_back(agent.value(state));
  std::vector<Tensor> advantages(kSteps);
  Tensor later = zeros({kCarts});
  for (size_t k = kSteps; k-- > 0;) {
    const Tensor miss = 1.0F + kDiscount * goes_on[k] * values[k + 1] - values[k];
    advantages[k] = later = miss + kDiscount * kDecay * goes_on[k] * later;
  }
  values.pop_back();
  const Tensor s = concat(states, {.axis = 0}), p = concat(pushes, {.axis = 0});
  const Tensor a = concat(advantages, {.axis = 0});
  return {s, p, log_chance(agent, s, p), (a - mean(a)) / (etude::std(a) + 1e-6F),
          a + concat(values, {.axis = 0})};
}

}  // namespace cart
