// SPDX-License-Identifier: Apache-2.0
// A cellular automaton whose rule is a small network. Each cell has 16 numbers, the first four red,
// green, blue and its degree of existence.
#pragma once

#include "etude/etude.h"

namespace automata {

using namespace etude;

constexpr int64_t kSize = 40, kChannels = 16, kSteps = 48, kBatch = 8;

// The filter of a perception: the numbers of a cell, and their slopes to the right and down.
inline Tensor perception() {
  const Tensor self({{0.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 0.0F}, {0.0F, 0.0F, 0.0F}});
  const Tensor right =
      Tensor({{-1.0F, 0.0F, 1.0F}, {-2.0F, 0.0F, 2.0F}, {-1.0F, 0.0F, 1.0F}}) / 8.0F;
  const Tensor three = stack({self, right, matrix_transpose(right)}, {.axis = -1});
  const Tensor each = reshape(eye(kChannels, {.dtype = kFloat32}), {1, 1, kChannels, kChannels, 1});
  return reshape(each * reshape(three, {3, 3, 1, 1, 3}), {3, 3, kChannels, 3 * kChannels});
}

inline Tensor is_alive(const Tensor& cells) {
  const Tensor there = slice(cells, {0, 0, 0, 3}, {kBatch, kSize, kSize, 4});
  return nn::max_pool2d(there, {3, 3}, {.strides = {1}, .padding = "same"}) > 0.1F;
}

struct Automaton {
  nn::Dense look{3 * kChannels, 96, {.activation = nn::relu}};
  nn::Dense change{96, kChannels, {.weight_init = nn::zeros}};

  Tensor operator()(const Tensor& cells, const Tensor& filter) const {
    const Tensor seen = nn::conv2d(cells, filter, {.padding = "same"});
    // Half of the cells act, at random: the cells have no common clock.
    const Tensor acts = astype(random::uniform({kBatch, kSize, kSize, 1}) < 0.5F, kFloat32);
    const Tensor next = cells + change(look(seen)) * acts;
    return where(logical_and(is_alive(cells), is_alive(next)), next, 0.0F);
  }
};

}  // namespace automata
