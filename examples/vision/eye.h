// SPDX-License-Identifier: Apache-2.0
// Features of pictures, by fixed random filters. Used by style.cc.
#pragma once

#include <vector>

#include "etude/etude.h"

namespace seeing {

using namespace etude;

// Three scales of random features.
struct Eye {
  nn::Conv2D a{5, 3, 24, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D b{3, 24, 32, {.strides = 2, .padding = "same", .activation = nn::relu}};
  nn::Conv2D c{3, 32, 32, {.strides = 2, .padding = "same", .activation = nn::relu}};
  std::vector<Tensor> operator()(const Tensor& images) const {
    const Tensor x = a(images), y = b(x);
    return {x, y, c(y)};
  }
};
// Products of all pairs of features, summed over the picture: [n, features, features].
inline Tensor gram(const Tensor& x) {
  const Shape& s = x.shape();
  const Tensor flat = reshape(x, {s[0], s[1] * s[2], s[3]});
  return matmul(flat, flat, {.transpose_x = true}) / static_cast<float>(s[1] * s[2]);
}

}  // namespace seeing
