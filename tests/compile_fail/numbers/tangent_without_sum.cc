// SPDX-License-Identifier: Apache-2.0
// spec: G12.b
// expect: etude: DifferentiableTraits<T>::Tangent needs operator+=
#include "etude/diff.h"

class Angle {
 public:
  Angle() = default;
  double value() const { return value_; }

 private:
  double value_ = 0;
};
template <class T>
struct Turn {
  T angle;
};
template <class T>
struct etude::DifferentiableTraits<Turn<T>> {
  using Tangent = Angle;
  static Angle zero(const Turn<T>&) { return {}; }
  static void move(Turn<T>& x, const Angle& by) { x.angle += by.value(); }
};
auto g = etude::gradient([](const auto& t) { return t.angle; }, Turn<double>{1});
