// SPDX-License-Identifier: Apache-2.0
// Optimises on a manifold: finds the rotation that takes one set of points to another. Rotations
// are unit quaternions, their tangents are vectors of three, and a step along a tangent yields a
// rotation.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "etude/diff.h"

using namespace etude;

template <class T>
using Vector = std::array<T, 3>;

template <class T>
struct Rotation {
  T w, x, y, z;
  template <class U>
  Vector<T> operator()(const Vector<U>& v) const {
    const Vector<T> t = {2.0 * (y * v[2] - z * v[1]), 2.0 * (z * v[0] - x * v[2]),
                         2.0 * (x * v[1] - y * v[0])};
    return {v[0] + w * t[0] + y * t[2] - z * t[1], v[1] + w * t[1] + z * t[0] - x * t[2],
            v[2] + w * t[2] + x * t[1] - y * t[0]};
  }
  friend Rotation operator*(const Rotation& a, const Rotation& b) {
    return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
            a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
  }
};

// The whole protocol: the tangent type, the zero tangent, and a step along a tangent.
template <class T>
struct etude::DifferentiableTraits<Rotation<T>> {
  using Tangent = Vector<T>;
  static Tangent zero(const Rotation<T>&) { return {}; }
  static void move(Rotation<T>& r, const Tangent& by) {
    using std::sqrt;
    Rotation<T> turn{T(1.0), 0.5 * by[0], 0.5 * by[1], 0.5 * by[2]};
    const T length = sqrt(1.0 + turn.x * turn.x + turn.y * turn.y + turn.z * turn.z);
    r = Rotation<T>{turn.w / length, turn.x / length, turn.y / length, turn.z / length} * r;
  }
};

int main() {
  const Rotation<double> truth{0.5, 0.5, -0.5, 0.5};
  const std::vector<Vector<double>> points = {{1, 0, 0}, {0, 2, 0}, {0, 0, 1}, {1, 1, 1}};
  const auto loss = [&](const auto& rotation) {
    auto sum = rotation.w * 0.0;
    for (const Vector<double>& p : points) {
      const auto to = rotation(p);
      const auto wanted = truth(p);
      for (int i = 0; i < 3; ++i) sum += (to[i] - wanted[i]) * (to[i] - wanted[i]);
    }
    return sum;
  };
  Rotation<double> rotation{1, 0, 0, 0};
  for (int step = 0; step <= 60; ++step) {
    const auto [error, slope] = value_with_gradient(loss, rotation);  // slope has three numbers
    if (step % 20 == 0) std::printf("step %2d  error %.2e\n", step, error);
    move(rotation, scaled(slope, -0.04));
  }
  const auto [w, x, y, z] = rotation;
  std::printf("rotation (%.4f %.4f %.4f %.4f), its length less 1: %.0e\n", w, x, y, z,
              std::sqrt(w * w + x * x + y * y + z * z) - 1);
}
