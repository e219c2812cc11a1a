// SPDX-License-Identifier: Apache-2.0
// Drawn figures, and the positions of head, hip, hand and foot. Used by pose.cc.
#pragma once

#include "etude/etude.h"

namespace figures {

using namespace etude;

constexpr int64_t kSide = 48, kJoints = 4, kSquares = 6;  // squares along a side

struct Figures {
  Tensor images, joints;  // [n, side, side, 3]; [n, joints, 2]: rows and columns, in pixels
};

// White where a pixel is within `thick` of the line from a to b, each [n, 2].
inline Tensor line(const Tensor& a, const Tensor& b, float thick) {
  const Tensor place = astype(arange(kSide), kFloat32);
  const auto part = [](const Tensor& p, int64_t k) {
    return reshape(slice(p, {0, k}, {p.shape()[0], k + 1}), {-1, 1, 1});
  };
  const Tensor y = reshape(place, {1, kSide, 1}) - part(a, 0),
               x = reshape(place, {1, 1, kSide}) - part(a, 1);
  const Tensor dy = part(b - a, 0), dx = part(b - a, 1);
  const Tensor along = clip((y * dy + x * dx) / (square(dy) + square(dx) + 1e-3F),
                            {.min = Tensor(0.0F), .max = Tensor(1.0F)});
  return astype(square(y - along * dy) + square(x - along * dx) < thick * thick, kFloat32);
}

inline Figures draw(int64_t n) {
  const auto between = [&](float low, float high) {
    return random::uniform({n, 2}, {.low = Tensor(low), .high = Tensor(high)});
  };
  const Tensor hip = between(18, 30), head = hip + Tensor({-12.0F, 0.0F}) + between(-4, 4);
  const Tensor hand = hip + Tensor({-4.0F, 0.0F}) + between(-12, 12),
               foot = hip + Tensor({13.0F, 0.0F}) + between(-4, 4);
  const Tensor neck = 0.7F * head + 0.3F * hip;
  const Tensor body =
      maximum(line(hip, head, 1.5F), maximum(line(neck, hand, 1.2F), line(hip, foot, 1.2F)));
  const Tensor noise = 0.15F * random::normal({n, kSide, kSide, 3});
  const Tensor image = stack(
      {maximum(body, line(head, head, 4)), body, maximum(body, line(hand, hand, 2))}, {.axis = -1});
  return {image + noise, stack({head, hip, hand, foot}, {.axis = 1})};
}

// The number of the square of each joint, [n, joints]; and the middle of a square from its number.
inline Tensor square_of(const Tensor& joints) {
  const Tensor at =
      clip(floor(joints / 8.0F), {.min = Tensor(0.0F), .max = Tensor(kSquares - 1.0F)});
  return astype(sum(at * Tensor({float{kSquares}, 1.0F}), {.axis = {2}}), kInt32);
}
inline Tensor middle_of(const Tensor& square) {
  const int32_t n = kSquares;
  return 3.5F + 8.0F * astype(stack({floor_divide(square, n), remainder(square, n)}, {.axis = 2}),
                              kFloat32);
}

}  // namespace figures
