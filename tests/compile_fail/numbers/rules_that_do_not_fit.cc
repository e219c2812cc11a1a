// SPDX-License-Identifier: Apache-2.0
// Derivatives that were written and cannot be used, and loops that cannot be compiled.
// spec: D42, G10
// error: etude: derivative_of<F>::vjp must take F's parameters and return pair{value, pullback(
// error: etude: derivative_of<F>::vjp must take F's parameters and return pair{value, pullback(
// error: etude: derivative_of<F>::jvp must take F's parameters and their tangents and return pair
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: no argument is Differentiable: an integer does not move; write 3.0 for 3
// error: etude: the body of scan must capture nothing; pass what it reads as parameters or as
// error: etude: scan needs states, parameters and elements with a number of numbers that their
// error: etude: this field carries no derivative, so it has no slot
#include <vector>

#include "etude/diff.h"

double cube(double x) { return x * x * x; }
template <>
struct etude::derivative_of<&cube> {
  static auto vjp(double x) { return 3 * x * x; }
};
auto no_pair = etude::gradient<&cube>(2.0);

double product(double a, double b) { return a * b; }
template <>
struct etude::derivative_of<&product> {
  static auto vjp(double a, double b) {
    return std::pair{a * b, [=](double dy) { return std::pair{dy * b, dy * a}; }};
  }
};
auto returning = etude::gradient<&product>(2.0, 3.0);

double square(double x) { return x * x; }
template <>
struct etude::derivative_of<&square> {
  static auto jvp(double x) { return std::pair{x * x, 2 * x}; }
};
auto no_tangent = etude::gradient<&square>(2.0);

double plain(double x) { return x; }
auto no_rule = etude::gradient<&plain>(2.0);
auto integer = etude::gradient<&plain>(2);

double run(double rate) {
  return etude::scan(10, 1.0, 2.0, [rate](auto s, auto p) { return s - rate * p; });
}
auto grow(const std::vector<double>& state) {
  return etude::scan(10, state, 2.0, [](auto s, auto) { return s; });
}

template <class T>
struct Counted {
  T value;
  int count;
};
auto slot = etude::zero_tangent(Counted<double>{1, 2})[&Counted<double>::count];
