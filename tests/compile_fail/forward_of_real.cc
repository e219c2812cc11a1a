// SPDX-License-Identifier: Apache-2.0
// spec: G15
// expect: etude: forward mode needs a generic function (auto parameters, or a struct templated on
// its
#include "etude/diff/scalar_operators.h"

auto d = etude::derivative([](etude::Real x) { return x * x; }, 2.0);
