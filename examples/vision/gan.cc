// SPDX-License-Identifier: Apache-2.0
// An artist learns from a critic to make images of clothing from 64 random numbers. Both consist of
// Dense layers. Writes gan.png: images after each part of the training, row by row.
//   ./dev run gan [STEPS]
#include <cstdlib>

#include "examples/vision/adversaries.h"

using namespace adversaries;

struct Artist {
  nn::Dense a{64, 128, {.activation = leaky}}, b{128, 256, {.activation = leaky}};
  nn::Dense c{256, 512, {.activation = leaky}}, d{512, 784, {.activation = nn::sigmoid}};
  Tensor operator()(const Tensor& noise) const {
    return reshape(nn::sequenced(noise, a, b, c, d), {-1, 28, 28, 1});
  }
};
struct Critic {
  nn::Flatten flatten;
  nn::Dense a{784, 256, {.activation = leaky}}, b{256, 128, {.activation = leaky}}, c{128, 1};
  Tensor operator()(const Tensor& images) const { return nn::sequenced(images, flatten, a, b, c); }
};

int main(int argc, char** argv) try {
  set_seed(2);
  const Artist artist;
  const Critic critic;
  compete("gan", artist, critic, 64, argc > 1 ? std::atoll(argv[1]) : 12000);
} catch (const Error& error) {
  std::fprintf(stderr, "gan: %s\n", error.what());
  return 1;
}
