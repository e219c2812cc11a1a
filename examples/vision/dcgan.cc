// SPDX-License-Identifier: Apache-2.0
// Like gan.cc, with convolutions (Radford, Metz and Chintala, 2015): transposed convolutions make
// images from 100 random numbers, and both networks have batch normalisation. Writes dcgan.png.
//   ./dev run dcgan [STEPS [WIDTH]]
#include <cstdlib>

#include "examples/vision/adversaries.h"

using namespace adversaries;

struct Artist {
  nn::Dense start;
  nn::BatchNorm norm1, norm2;
  nn::TransposedConv2D up1, up2;
  Tensor operator()(const Tensor& noise) const {
    const Tensor small = reshape(start(noise), {noise.shape()[0], 7, 7, -1});
    return up2(nn::relu(norm2(up1(nn::relu(norm1(small))))));
  }
};
Artist artist_of(int64_t width) {
  return {.start = nn::Dense(100, 49 * 2 * width, {.bias = false}),
          .norm1 = nn::BatchNorm(2 * width, {.momentum = 0.9}),
          .norm2 = nn::BatchNorm(width, {.momentum = 0.9}),
          .up1 = {4, 2 * width, width, {.strides = 2, .padding = "same", .bias = false}},
          .up2 = {4, width, 1, {.strides = 2, .padding = "same", .activation = nn::sigmoid}}};
}

struct Critic {
  nn::Conv2D a, b;
  nn::BatchNorm norm;
  nn::Dense c;
  Tensor operator()(const Tensor& images) const {
    const Tensor seen = leaky(norm(b(a(2.0F * images - 1.0F))));
    return c(flatten(seen, {.start = 1}));
  }
};
Critic critic_of(int64_t width) {
  return {.a = {4, 1, width, {.strides = 2, .padding = "same", .activation = leaky}},
          .b = {4, width, 2 * width, {.strides = 2, .padding = "same", .bias = false}},
          .norm = nn::BatchNorm(2 * width, {.momentum = 0.9}),
          .c = nn::Dense(49 * 2 * width, 1)};
}

int main(int argc, char** argv) try {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1200;
  const int64_t width = argc > 2 ? std::atoll(argv[2]) : 32;
  set_seed(3);
  const Artist artist = artist_of(width);
  const Critic critic = critic_of(width);
  compete("dcgan", artist, critic, 100, steps);
} catch (const Error& error) {
  std::fprintf(stderr, "dcgan: %s\n", error.what());
  return 1;
}
