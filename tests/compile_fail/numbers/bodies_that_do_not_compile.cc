// SPDX-License-Identifier: Apache-2.0
// Bodies that do not compile with the numbers of a derivative, for each operator in reverse mode:
// one error of the compiler at the user's line, then our remedy.
// spec: G1.a
// bodies: 7
// expect: for a function of double that it calls write etude::derivative_of<&f>, and call
#include <vector>

#include "etude/diff.h"

using namespace etude;

double cube(double x) { return x * x * x; }
auto a = gradient([](auto x) { return cube(x) + x; }, 3.0);
auto b = value_with_gradient([](auto x, auto y) { return cube(x) + y; }, 3.0, 4.0);
auto c = gradient([](const auto& v) { return cube(v[0]); }, std::vector{3.0});
auto d = pullback([](auto x, auto y) { return cube(x) + y; }, 3.0, 4.0);
auto e = value_with_pullback([](auto x) { return cube(x) + x; }, 3.0);
auto f = vjp([](auto x) { return cube(x) + x; }, 3.0, 1.0);
auto g = jacobian([](auto x) { return cube(x) * x; }, 3.0);
