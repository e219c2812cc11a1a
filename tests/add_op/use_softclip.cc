// SPDX-License-Identifier: Apache-2.0
// A user's program that calls the op which softclip.patch adds, through the header generated from
// it.
#include <cmath>
#include <iostream>

#include "etude/autodiff/gradient.h"
#include "etude/ops.h"

int main() {
  const etude::Tensor x({-2.0, 0.0, 3.0});
  const etude::Tensor y = etude::softclip(x, {.limit = 2.0});
  const etude::Tensor slope = etude::gradient(
      [](const etude::Tensor& v) { return sum(etude::softclip(v, {.limit = 2.0})); }, x);
  std::cout << y << "\n" << slope << "\n";
  const double want_y[] = {2 * std::tanh(-1.0), 0, 2 * std::tanh(1.5)};
  const double want_slope[] = {0.41997434161402614, 1, 0.18070663892364842};
  for (int i = 0; i < 3; ++i) {
    if (std::abs(y.at(i).item<double>() - want_y[i]) > 1e-6) return 1;
    if (std::abs(slope.at(i).item<double>() - want_slope[i]) > 1e-6) return 1;
  }
  return 0;
}
