// SPDX-License-Identifier: Apache-2.0
// Bodies that do not compile with the numbers of a derivative, for each operator in forward mode:
// one error of the compiler at the user's line, then our remedy.
// spec: G1.a
// bodies: 7
// expect: for a function of double that it calls write etude::derivative_of<&f>, and call
#include <array>

#include "etude/diff.h"

using namespace etude;

double cube(double x) { return x * x * x; }
auto a = derivative([](auto x) { return cube(x) + x; }, 3.0);
auto b = value_with_derivative([](auto x) { return cube(x) + x; }, 3.0);
auto c = jvp([](auto x) { return cube(x) + x; }, 3.0, 1.0);
auto d = differential([](auto x) { return cube(x) + x; }, 3.0)(1.0);
auto e = forward_jacobian([](auto x) { return cube(x) * x; }, 3.0);
auto f = hessian([](auto x) { return cube(x) * x; }, 3.0);
auto g = hvp([](const auto& v) { return cube(v[0]); }, std::array{3.0, 4.0}, std::array{1.0, 0.0});
