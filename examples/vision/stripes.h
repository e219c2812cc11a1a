// SPDX-License-Identifier: Apache-2.0
// Images with a known answer, in the shape of CIFAR-10: stripes in one of ten directions, of any
// colour, width and place, with noise. Used by cifar.cc and transfer.cc.
#pragma once

#include <numbers>

#include "etude/etude.h"

inline etude::data::Samples stripes(int64_t n, int64_t classes = 10, int64_t side = 32) {
  using namespace etude;
  const Tensor labels = astype(random::randint({n}, 0, classes), kInt32);
  const Tensor angle = reshape(astype(labels, kFloat32), {n, 1, 1}) *
                       (std::numbers::pi_v<float> / static_cast<float>(classes));
  const auto between = [&](float low, float high) {
    return random::uniform({n, 1, 1}, {.low = Tensor(low), .high = Tensor(high)});
  };
  const Tensor place = astype(arange(side), kFloat32);
  const Tensor x = reshape(place, {1, 1, side}), y = reshape(place, {1, side, 1});
  // Each draw is a statement of its own, since the compiler chooses the order of operands.
  const Tensor pace = between(0.5F, 1.0F), phase = between(0, 2 * std::numbers::pi_v<float>);
  const Tensor wave = sin(pace * (cos(angle) * x + sin(angle) * y) + phase);
  const Tensor colour = random::uniform({n, 1, 1, 3}, {.low = Tensor(-0.5F), .high = Tensor(0.5F)});
  const Tensor noise = 0.1F * random::normal({n, side, side, 3});
  return {0.5F + expand_dims(wave, {3}) * colour + noise, labels};
}
