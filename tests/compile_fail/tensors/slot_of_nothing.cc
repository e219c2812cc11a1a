// SPDX-License-Identifier: Apache-2.0
// spec: D5
// expect: etude: this field carries no derivative, so it has no slot
#include "etude/autodiff/gradient.h"

struct Scaled {
  etude::Tensor weight;
  etude::NoDerivative<etude::Tensor> scale;
};

auto g = etude::zero_tangent(Scaled{})[&Scaled::scale];
