// SPDX-License-Identifier: Apache-2.0
// Derivatives of plain C++: functions, containers and structs of numbers, without a tensor. Needs
// nothing but headers.
#include <cmath>
#include <cstdio>
#include <vector>

#include "etude/diff.h"

using namespace etude;

// A struct templated on its scalar can be an argument of a derivative, and so can std::vector.
template <class T>
struct Line {
  T slope, offset;
  T operator()(double x) const { return slope * x + offset; }
};

int main() {
  // Any generic function: branches, loops, recursion and mutation are differentiated as they run.
  const auto power = [](auto x, int n) {
    auto y = x;
    for (int i = 1; i < n; ++i) y *= x;
    return y;
  };
  std::printf("slope of x^5 at 3: %g\n", gradient(power, 3.0, 5));
  const auto [value, slopes] =
      value_with_gradient([](auto x, auto y) { return x * sin(y); }, 2, 1.);
  std::printf("x sin(y) at (2, 1): %.4f, its slope by y %.4f\n", value, slopes);

  // Many numbers: one reverse pass computes all derivatives. hvp and hessian return second ones.
  const auto energy = [](const auto& v) {
    auto sum = v[0] * v[0];
    for (std::size_t i = 1; i < v.size(); ++i) sum += pow(v[i] - v[i - 1], 4.0);
    return sum;
  };
  const std::vector<double> chain = {1, 2, 4, 5, 5};
  for (const double g : gradient(energy, chain)) std::printf("%g ", g);
  std::printf("is the gradient of the chain; %g its largest curvature\n",
              hessian(energy, chain)[2][2]);

  // Structs have struct gradients, and move along them.
  const std::vector<double> xs = {0, 1, 2, 3}, ys = {1, 3, 5, 7};
  const auto loss = [&](const auto& line) {
    auto sum = line.slope * 0.0;
    for (std::size_t i = 0; i < xs.size(); ++i)
      sum += (line(xs[i]) - ys[i]) * (line(xs[i]) - ys[i]);
    return sum;
  };
  Line<double> line{0, 0};
  for (int step = 0; step < 500; ++step) move(line, -0.03 * gradient(loss, line));
  std::printf("fitted line: y = %.3f x + %.3f\n", line.slope, line.offset);

  // A derivative is a function too.
  const auto second =
      gradient([](auto x) { return gradient([](auto y) { return y * y * y; }, x); });
  std::printf("second derivative of x^3 at 2: %g\n", second(2.0));
}
