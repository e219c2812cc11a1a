// SPDX-License-Identifier: Apache-2.0
// Functions and arguments that have no jacobian, no second derivative, or none along a direction.
// spec: G1.a, G3, D27.h
// error: etude: forward mode needs a generic function
// error: etude: forward mode needs a generic function
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
// error: etude: this function takes more arguments than follow it
// error: etude: functions on etude::Real are differentiated once, in reverse mode
// error: etude: functions on etude::Real are differentiated once, in reverse mode
// error: etude: gradient needs a function whose result is one number, computed from its
// error: an argument is not Differentiable; wrap it in no_derivative(), or pass the value itself
// error: an argument is not Differentiable; wrap it in no_derivative(); std::function hides what it
// error: etude: the body of scan must capture nothing; pass what it reads as parameters or as
#include <functional>
#include <string>

#include "etude/diff.h"

auto columns = etude::forward_jacobian([](etude::Real x) { return x * x; }, 3.0);
auto along = etude::jvp([](etude::Real x, etude::Real y) { return x * y; }, 3.0, 2.0, 1.0, 0.0);
auto rows = etude::jacobian([](double x) { return x * x; }, 3.0);
auto bent = etude::hessian([](double x) { return x * x; }, 3.0);
auto curved = etude::hessian([](etude::Real x) { return x * x; }, 3.0);
auto turned = etude::hvp([](etude::Real x) { return x * x * x; }, 3.0, 1.0);
auto pulled = etude::vjp([](double x) { return x * x; }, 3.0, 1.0).second;
auto more = etude::jvp([](auto x, auto y) { return x * y; }, 3.0, 1.0).second;
auto text = etude::gradient([](auto x) { return etude::with_aux(x > 0, std::string("a")); }, 3.0);

const auto square = [](auto x, const auto&) { return x * x; };
const double* nowhere = nullptr;
auto behind = etude::hessian(square, 3.0, nowhere);
auto moved = etude::jvp(square, 3.0, std::function<double()>(), 1.0, etude::NoTangent());

double run(double rate) {
  return etude::scan(10, 1.0, [rate](auto s) { return s - rate; });
}
