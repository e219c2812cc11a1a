// SPDX-License-Identifier: Apache-2.0
// What compilers say themselves of a function that returns nothing, and nothing more; code that is
// never reached is differentiated without a word.
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
