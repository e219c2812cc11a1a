// SPDX-License-Identifier: Apache-2.0
// One step of a simulation in five forms: numbers in an array, slices of a tensor, the same staged,
// a convolution, and element by element. Their gradients agree.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "examples/physics/water.h"

using namespace etude;

Water by_convolution(const Water& w) {
  const int64_t n = w.now.shape()[0];
  const Tensor cross({{0.0F, 1.0F, 0.0F}, {1.0F, -4.0F, 1.0F}, {0.0F, 1.0F, 0.0F}});
  const Tensor bend =
      nn::conv2d(reshape(w.now, {1, n, n, 1}), reshape(cross, {3, 3, 1, 1}), {.padding = "same"});
  return next(w, reshape(bend, {n, n}));
}

Water by_elements(const Water& w) {
  const Tensor p = pad(w.now, {1});
  const int64_t n = w.now.shape()[0];
  Tensor bend = zeros({n, n});
  for (int64_t y = 0; y < n; ++y) {
    for (int64_t x = 0; x < n; ++x) {
      bend.at(y, x) = p.at(y, x + 1) + p.at(y + 2, x + 1) + p.at(y + 1, x) + p.at(y + 1, x + 2) -
                      4.0F * p.at(y + 1, x + 1);
    }
  }
  return next(w, bend);
}

// Without tensors: T is float, or a number with a derivative.
template <class T>
T loss_of_numbers(const std::vector<T>& start, const std::vector<float>& target, size_t n,
                  int64_t steps) {
  std::vector<T> now = start, before = start;
  const auto at = [&](size_t y, size_t x) { return y < n && x < n ? now[y * n + x] : T(0); };
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<T> then = now;
    for (size_t i = 0; i < n * n; ++i) {
      const size_t y = i / n, x = i % n;  // y - 1 of row 0 is no row
      const T sum = at(y - 1, x) + at(y + 1, x) + at(y, x - 1) + at(y, x + 1);
      then[i] += kLoss * (now[i] - before[i]) + kSpeed * (sum - 4.0F * now[i]);
    }
    before = std::exchange(now, std::move(then));
  }
  T sum = 0;
  for (size_t i = 0; i < n * n; ++i) sum += (now[i] - target[i]) * (now[i] - target[i]);
  return sum / static_cast<float>(n * n);
}

int main() {
  const int64_t n = 12, steps = 10;
  const Tensor target = ring(n), start = random::uniform({n, n});
  const auto slope = [&](const auto& step) {
    return gradient([&](const Tensor& s) { return loss_after(steps, step, s, target); }, start);
  };
  const Tensor expected = slope(by_slices);
  const auto staged =
      function([&](const Tensor& s) { return loss_after(steps, by_slices, s, target); });
  const auto numbers = [&, goal = target.to_vector<float>()](const auto& s) {
    return loss_of_numbers(s, goal, static_cast<size_t>(n), steps);
  };
  const std::pair<const char*, Tensor> forms[] = {
      {"slices, staged", gradient([&](const Tensor& s) { return staged(s); }, start)},
      {"convolution", slope(by_convolution)},
      {"elements", slope(by_elements)},
      {"numbers", Tensor(gradient(numbers, start.to_vector<float>()), {n, n})}};
  bool agree = true;
  for (const auto& [name, found] : forms) {
    const float away = max(abs(found - expected)).item<float>() / max(abs(expected)).item<float>();
    std::printf("%-14s differs from slices by %.1e of the largest slope\n", name, away);
    agree = agree && away < 1e-5F;
  }
  std::printf("%s\n", agree ? "all gradients agree" : "GRADIENTS DIFFER");
  return agree ? 0 : 1;
}
