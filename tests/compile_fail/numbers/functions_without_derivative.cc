// SPDX-License-Identifier: Apache-2.0
// Functions that are not called with the numbers of a derivative, or whose result has no gradient.
// spec: G1.a, G3, G15
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: no derivative for this function: a struct that it takes has fields of type double
// error: etude: no derivative for this function: it takes something that the arguments convert to
// error: etude: this function takes more arguments than follow it
// error: etude: this function takes fewer arguments than follow it
// error: etude: a function that is differentiated is called as const: remove 'mutable'
// error: etude: gradient needs a function with one number as its result; this one returns nothing
// error: etude: gradient needs a function whose result is one number, computed from its
// error: etude: gradient needs a function whose result is one number, computed from its
// error: etude: the result type is not Differentiable: this function returns nothing
// error: etude: the result type is not Differentiable: integers and texts do not move
// error: NoDerivative<>; a pointer does not say whose number it is: hold the value itself
// error: etude: forward mode needs a generic function
// expect: Point
#include <string>
#include <tuple>
#include <vector>

#include "etude/diff.h"

auto plain = etude::gradient([](double x) { return x * x; }, 3.0);
auto reverse = etude::pullback([](double x) { return x * x; }, 3.0);
auto written = etude::gradient([](std::vector<double>& v) { return v[0]; }, std::vector{1.0});

struct Point {
  double x, y;
};
auto fixed = etude::gradient([](const auto& p) { return p.x * p.y; }, Point{1, 2});

struct Matrix {
  Matrix(double number) : value(number) {}
  double value;
};
auto converts = etude::gradient([](const Matrix& m) { return m.value; }, 3.0);

auto more = etude::gradient([](auto x, auto y) { return x * y; }, 3.0);
auto fewer = etude::value_with_gradient([](auto x) { return x * x; }, 3.0, 4.0);
auto counts = etude::gradient([n = 0](auto x) mutable { return ++n * x; }, 3.0);

auto nothing = etude::gradient([](auto x) { x = x * x; }, 3.0);
auto flag = etude::gradient([](auto x) { return x > 0; }, 3.0);
auto pair = etude::gradient([](auto x) { return std::tuple(x, x * x); }, 3.0);
auto no_result = etude::pullback([](auto x) { x = x * x; }, 3.0);
auto text = etude::pullback([](auto) { return std::string("a"); }, 1.0);
template <class T>
struct Out {
  T value;
  T* from;
};
auto holds = etude::pullback([](auto x) { return Out<decltype(x)>{x * x, nullptr}; }, 1.0);
auto real = etude::derivative([](etude::Real x) { return x * x; }, 3.0);
