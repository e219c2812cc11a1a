// SPDX-License-Identifier: Apache-2.0
// Straight functions of up to ten operations: their gradients by the library and by hand.
// instruction_counts_test.py counts the instructions of each pair.
#include <cmath>
#include <tuple>

#include "etude/diff.h"

using etude::gradient;

#define PAIR(name, body, slope)                       \
  extern "C" double etude_##name(double at) {         \
    return gradient([](auto x) { return body; }, at); \
  }                                                   \
  extern "C" double hand_##name(double x) { return slope; }

PAIR(square, x* x, 2 * x)
PAIR(cube, x* x* x, 3 * x * x)
PAIR(wave, x* x* sin(x), 2 * x * std::sin(x) + x * x * std::cos(x))
PAIR(decay, exp(-x* x), -2 * x * std::exp(-x * x))
PAIR(logistic, 1.0 / (1.0 + exp(-x)), std::exp(-x) / ((1 + std::exp(-x)) * (1 + std::exp(-x))))
PAIR(ratio, (x - 1.0) / (x + 1.0), 2 / ((x + 1) * (x + 1)))
PAIR(logarithm, log(x* x + 1.0), 2 * x / (x * x + 1))
PAIR(root, sqrt(x* x + 2.0), x / std::sqrt(x * x + 2))
PAIR(polynomial, ((2.0 * x + 3.0) * x - 1.0) * x + 7.0, (6 * x + 6) * x - 1)
PAIR(mixed, sin(x) * exp(x) + x / (1.0 + x * x),
     std::exp(x) * (std::sin(x) + std::cos(x)) + (1 - x * x) / ((1 + x * x) * (1 + x * x)))

// Of two numbers: each begins with a derivative of 1 and one of 0, which are known.
struct Slopes {
  double by_x, by_y;
};
extern "C" void etude_two_product(double x, double y, Slopes* out) {
  const auto [dx, dy] = gradient([](auto a, auto b) { return a * b + a * a; }, x, y);
  *out = {dx, dy};
}
extern "C" void hand_two_product(double x, double y, Slopes* out) { *out = {y + 2 * x, x}; }
extern "C" void etude_two_wave(double x, double y, Slopes* out) {
  const auto [dx, dy] = gradient([](auto a, auto b) { return a * sin(b); }, x, y);
  *out = {dx, dy};
}
extern "C" void hand_two_wave(double x, double y, Slopes* out) {
  *out = {std::sin(y), x * std::cos(y)};
}
