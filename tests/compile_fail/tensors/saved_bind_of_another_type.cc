// SPDX-License-Identifier: Apache-2.0
// Objects that are bound to a saved function are its first arguments.
// expect: etude: saved::bind: the objects have the types of the first parameters
#include "etude/etude.h"
#include "etude/saved/saved.h"

struct Line {
  etude::Tensor w, b;
};
struct Curve {
  etude::Tensor w;
};

auto f = etude::function([](const Line& line, const etude::Tensor& x) { return x * line.w; });
auto bound = etude::saved::bind(f, Curve());
