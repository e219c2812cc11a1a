// SPDX-License-Identifier: Apache-2.0
// Waves on shallow water, and where they should go. Used by shallow_water.cc and by
// shallow_water_forms.cc, which writes the same step in other ways.
#pragma once

#include "etude/etude.h"

constexpr float kSpeed = 0.2F, kLoss = 0.999F;  // (speed dt / dx)^2, the share left by friction

// The level now and one step before; [n, n] inside of a border at level 0.
struct Water {
  etude::Tensor now, before;
};
inline Water next(const Water& w, const etude::Tensor& laplacian) {
  return {w.now + kLoss * (w.now - w.before) + kSpeed * laplacian, w.now};
}

// One step, by slices of the level with its border.
inline Water by_slices(const Water& w) {
  const etude::Tensor p = pad(w.now, {1});
  const int64_t n = w.now.shape()[0];
  const auto part = [&](int64_t y, int64_t x) { return slice(p, {y, x}, {y + n, x + n}); };
  return next(w, part(0, 1) + part(2, 1) + part(1, 0) + part(1, 2) - 4.0F * w.now);
}

// The mean squared distance to the target after so many steps from rest.
template <class Step>
etude::Tensor loss_after(int64_t steps, const Step& step, const etude::Tensor& start,
                         const etude::Tensor& target) {
  const auto body = [&](const Water& w, const etude::Tensor&) { return step(w); };
  return mean(square(fold(body, Water{start, start}, etude::arange(steps)).now - target));
}

// A ring of height 1 around the middle, and nothing else.
inline etude::Tensor ring(int64_t n) {
  const etude::Tensor x = astype(etude::linspace(-1.0, 1.0, n), etude::kFloat32);
  const etude::Tensor radius = sqrt(expand_dims(square(x), {0}) + expand_dims(square(x), {1}));
  return exp(-100.0F * square(radius - 0.5F));
}
