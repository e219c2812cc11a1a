// SPDX-License-Identifier: Apache-2.0
// spec: G12.c
// expect: etude: DifferentiableTraits<T> needs move(x, tangent)
#include "etude/diff.h"

template <class T>
struct Turn {
  T angle;
};
template <class T>
struct etude::DifferentiableTraits<Turn<T>> {
  using Tangent = T;
  static T zero(const Turn<T>&) { return T(0); }
};
auto g = etude::gradient([](const auto& t) { return t.angle; }, Turn<double>{1});
