// SPDX-License-Identifier: Apache-2.0
// Many carts with a pole at a time: the physics of Barto, Sutton and Anderson (1983), in steps of
// 20 ms.
#pragma once

#include "etude/etude.h"

namespace cart {

using namespace etude;

// Initial states: almost upright and at rest.
inline Tensor begin(int64_t carts) {
  return random::uniform({carts, 4}, {.low = Tensor(-0.05F), .high = Tensor(0.05F)});
}

// States are rows of position, speed, angle and its speed; a push is 0 (left) or 1.
inline Tensor advance(const Tensor& state, const Tensor& push) {
  const auto parts = unstack(state, {.axis = 1});
  const Tensor &x = parts[0], &speed = parts[1], &angle = parts[2], &turn = parts[3];
  const Tensor force = 20.0F * astype(push, kFloat32) - 10.0F;
  const Tensor pull = (force + 0.05F * square(turn) * sin(angle)) / 1.1F;
  const Tensor swing = (9.8F * sin(angle) - cos(angle) * pull) /
                       (0.5F * (4.0F / 3 - 0.1F * square(cos(angle)) / 1.1F));
  const Tensor thrust = pull - 0.05F * swing * cos(angle) / 1.1F;
  return stack(
      {x + 0.02F * speed, speed + 0.02F * thrust, angle + 0.02F * turn, turn + 0.02F * swing},
      {.axis = 1});
}

inline Tensor stands(const Tensor& state) {  // 1 if pole and cart are within bounds
  const Tensor far = abs(state) / Tensor({2.4F, 1e9F, 0.2094F, 1e9F});
  return astype(max(far, {.axis = {1}}) < 1.0F, kFloat32);
}

}  // namespace cart
