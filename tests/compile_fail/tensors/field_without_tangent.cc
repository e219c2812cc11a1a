// SPDX-License-Identifier: Apache-2.0
// spec: G11
// expect: etude: a field has no tangent type; make it Differentiable
// expect: or wrap it in etude::NoDerivative<>
// expect: "file"
// expect: FILE
#include <cstdio>

#include "etude/autodiff/gradient.h"

struct Reader {
  etude::Tensor weight;
  std::FILE* file;
};

auto g = etude::gradient([](const Reader& reader) { return reader.weight; }, Reader{});
