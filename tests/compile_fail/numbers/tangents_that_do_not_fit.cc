// SPDX-License-Identifier: Apache-2.0
// Tangents of an operator or of move that do not fit the arguments.
// spec: G2.a
// error: etude: this operator takes the arguments of the function and then a tangent of each
// error: etude: this operator takes the arguments of the function and then a tangent of each
// error: etude: this operator takes the arguments of the function and then a tangent of each
// error: etude: this operator takes the arguments of the function and then a tangent of each
// error: etude: vjp takes the argument, or a std::tuple of several, and then a cotangent of the
// error: etude: vjp takes the argument, or a std::tuple of several, and then a cotangent of the
// error: etude: a pullback takes a cotangent of the result of the function
// error: etude: move(x, by) goes along a tangent of x
// error: etude: derivative(f, x) is with respect to one number; use gradient for the gradient of a
#include <string>
#include <tuple>
#include <vector>

#include "etude/diff.h"

const auto square = [](auto x) { return x * x; };
const auto product = [](auto x, auto y) { return x * y; };

auto without = etude::jvp(square, 2.0);
auto other = etude::jvp(square, 2.0, std::vector{1.0}).second;
auto few = etude::jvp(product, 2.0, 3.0, 1.0);
auto curved = etude::hvp(square, 2.0f);
auto back = etude::vjp(square, 2.0);
auto untied = etude::vjp(product, 2.0, 3.0, 1.0).second;
auto text = etude::pullback(square, 2.0)(std::string("a"));
void go(double& x) { etude::move(x, std::vector{1.0}); }
auto several = etude::derivative(product, 2.0, 3.0);
