// SPDX-License-Identifier: Apache-2.0
// spec: G12.a
// expect: etude: DifferentiableTraits<T>::Tangent must be default constructible
#include "etude/diff.h"

struct Angle {
  explicit Angle(double v) : value(v) {}
  Angle& operator+=(const Angle& other);
  double value;
};
template <class T>
struct Turn {
  T angle;
};
template <class T>
struct etude::DifferentiableTraits<Turn<T>> {
  using Tangent = Angle;
  static Angle zero(const Turn<T>&) { return Angle(0); }
  static void move(Turn<T>& x, const Angle& by) { x.angle += by.value; }
};
auto g = etude::gradient([](const auto& t) { return t.angle; }, Turn<double>{1});
