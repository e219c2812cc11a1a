// SPDX-License-Identifier: Apache-2.0
// A network that turns pictures into pictures, and its critic, which separates these from real
// ones. Used by pix2pix.cc and cyclegan.cc.
#pragma once

#include "etude/etude.h"

namespace painting {

using namespace etude;

constexpr int64_t kBatch = 8;

inline Tensor leaky(const Tensor& x) { return nn::leaky_relu(x, {.slope = 0.2}); }
const nn::ConvOptions kDown{.strides = 2, .padding = "same"};
const nn::TransposedConvOptions kUp{.strides = 2, .padding = "same"};

// A U-Net: down to 8 by 8 and back, where features of the way down are further channels. Images are
// [n, 32, 32, 1], results in [0, 1].
struct Painter {
  nn::Conv2D a{4, 1, 16, kDown}, b{4, 16, 32, kDown}, middle{3, 32, 32, {.padding = "same"}};
  nn::InstanceNorm norm1{32}, norm2{32}, norm3{16};
  nn::TransposedConv2D up1{4, 64, 16, kUp}, up2{4, 32, 1, kUp};
  Tensor operator()(const Tensor& x) const {
    const Tensor y = leaky(a(x)), z = leaky(norm1(b(y)));
    const Tensor low = concat({z, nn::relu(norm2(middle(z)))}, {.axis = 3});
    return nn::sigmoid(up2(concat({y, nn::relu(norm3(up1(low)))}, {.axis = 3})));
  }
};

// Estimates for each patch whether it is real: [n, 8, 8, 1].
struct Critic {
  nn::Conv2D a{4, 1, 16, kDown}, b{4, 16, 32, kDown}, c{3, 32, 1, {.padding = "same"}};
  nn::InstanceNorm norm{32};
  Tensor operator()(const Tensor& x) const { return c(leaky(norm(b(leaky(a(x)))))); }
};

// The loss of the critic's verdicts against one label: real (1) or made (0).
inline Tensor off(const Tensor& said, float real) { return mean(square(said - real)); }
inline Tensor apart(const Tensor& x, const Tensor& y) { return mean(abs(x - y)); }

// The images of one class, or of all (-1), with a border: [n, 32, 32, 1].
inline Tensor clothing(const data::Samples& from, int32_t kind = -1) {
  const Tensor all = pad(from.inputs, {0, 0, 2, 2, 2, 2, 0, 0});
  return kind < 0 ? all : boolean_mask(all, from.labels == kind);
}
inline Tensor first(const Tensor& x, int64_t n) { return slice(x, {0}, {n}); }

}  // namespace painting
