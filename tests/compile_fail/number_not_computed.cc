// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: gradient needs a function with one number as its result that is computed from its
#include "etude/diff/scalar_operators.h"

auto g = etude::gradient([](auto x) { return x > 0; }, 2.0);
