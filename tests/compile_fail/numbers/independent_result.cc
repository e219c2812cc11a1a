// SPDX-License-Identifier: Apache-2.0
// spec: G4.b, GEN17.b
// warn: etude: the result does not depend on the differentiated arguments; the gradient is zero
// warn: independent_result.cc:8
#include "etude/diff.h"

double run() {
  return etude::gradient([](auto x) { return static_cast<int>(x) + 2.0; }, 2.5);
}
