// SPDX-License-Identifier: Apache-2.0
// spec: D27
// expect: etude: a number of an outer derivative is used in an inner one whose own argument is
// plain expect: decltype(x)(1.0) for 1.0
#include "etude/diff/scalar_operators.h"

auto g = etude::gradient(
    [](auto x) { return x * etude::gradient([&](auto y) { return x * y; }, 1.0); }, 2.0);
