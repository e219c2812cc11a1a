// SPDX-License-Identifier: Apache-2.0
// The Julia set of c = -0.8 + 0.156 i and the Mandelbrot set: up to 200 steps of z -> z z + c at
// each pixel, as one staged loop. Writes julia.png and mandelbrot.png.
//   ./dev run julia [SIZE]
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "etude/etude.h"

using namespace etude;

constexpr int kSteps = 200;

struct Complex {
  Tensor re, im;
};
struct Orbit {
  Complex z;
  Tensor steps;  // before it left the circle of radius 2
};

// One step of all orbits. An orbit that has left the circle stays where it is.
Orbit advance(const Orbit& o, const Complex& c) {
  const Tensor re2 = square(o.z.re), im2 = square(o.z.im), is_inside = re2 + im2 < 4.0F;
  return {{where(is_inside, re2 - im2 + c.re, o.z.re),
           where(is_inside, 2.0F * o.z.re * o.z.im + c.im, o.z.im)},
          o.steps + astype(is_inside, kFloat32)};
}

// How many steps an orbit from z stays, as a graph that is made once: both pictures run it.
const auto steps_inside = function([](const Complex& z, const Complex& c) {
  const auto body = [&](const Orbit& o, const Tensor&) { return advance(o, c); };
  return fold(body, Orbit{z, zeros_like(z.re)}, arange(kSteps)).steps;
});

// The pixels of a square of the plane, row by row from the top.
Complex plane(int64_t size, double left, double right) {
  const double half = (right - left) / 2;
  const Tensor x = linspace(left, right, size), y = linspace(half, -half, size);
  return {broadcast_to(reshape(astype(x, kFloat32), {1, size}), {size, size}),
          broadcast_to(reshape(astype(y, kFloat32), {size, 1}), {size, size})};
}

// Waves of red, green and blue with different phases; orbits that never leave are black.
Tensor colours(const Tensor& steps) {
  const Tensor phase = expand_dims(log1p(steps) * 1.2F, {2}) + Tensor({0.0F, 0.33F, 0.67F});
  const Tensor waves = 0.5F - 0.5F * cos(phase * (2.0F * std::numbers::pi_v<float>));
  return where(expand_dims(steps >= static_cast<float>(kSteps), {2}), 0.0F, waves);
}

void draw(const char* name, const Complex& z, const Complex& c) {
  const Tensor steps = steps_inside(z, c);
  io::write_png(std::string(name) + ".png", colours(steps));
  std::printf("%-10s mean steps %.2f, never left %.4f\n", name, mean(steps).item<float>(),
              mean(astype(steps >= static_cast<float>(kSteps), kFloat32)).item<float>());
}

int main(int argc, char** argv) try {
  const int64_t size = argc > 1 ? std::atoll(argv[1]) : 512;
  const Complex julia = plane(size, -1.6, 1.6);
  draw("julia", julia, {full_like(julia.re, -0.8F), full_like(julia.re, 0.156F)});
  const Complex mandelbrot = plane(size, -2.0, 0.6);
  draw("mandelbrot", {zeros_like(mandelbrot.re), zeros_like(mandelbrot.re)}, mandelbrot);
} catch (const Error& error) {
  std::fprintf(stderr, "julia: %s\n", error.what());
  return 1;
}
