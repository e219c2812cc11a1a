// SPDX-License-Identifier: Apache-2.0
// The same shapes of code as in the other files, without their mistakes.
#include <cstdio>

#include "etude/autodiff/gradient.h"
#include "etude/base/structure.h"

using namespace etude;

struct Reader {
  Tensor weight;
  NoDerivative<std::FILE*> file;
};
Tensor weight_of(const Reader& reader) { return reader.weight; }

int main() {
  const Reader reader{1.0, {nullptr}};
  const auto g = gradient(weight_of, reader);
  const Tensor w = g[&Reader::weight];
  const auto [value, slope] =
      value_with_gradient([](const Tensor& x, int) { return x; }, Tensor(1.0), 2);
  const auto pull = pullback([](const Tensor& x) { return std::pair{x, x}; }, Tensor(1.0));
  const Tensor back = pull({Tensor(1.0), Tensor(1.0)});
  const auto moved = jvp([](const Tensor& x) { return x; }, Tensor(1.0), Tensor(1.0));
  for_each_leaf<Tensor>(reader, [](const Tensor&) {});
}
