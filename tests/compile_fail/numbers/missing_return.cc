// SPDX-License-Identifier: Apache-2.0
// A function that returns nothing has only the compiler's own warning; code that is never reached
// has no message from us.
// spec: G8
// warn: non-void
// never: etude: \w
#include "etude/diff.h"

template <class T>
T forgotten(T) {}

template <class T>
T reached(T x) {
  return x * x;
  return x + x;
}

double slopes() {
  return etude::gradient([](auto x) { return forgotten(x); }, 1.0) +
         etude::gradient([](auto x) { return reached(x); }, 1.0);
}
