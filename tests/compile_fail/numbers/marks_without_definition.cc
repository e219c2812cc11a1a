// SPDX-License-Identifier: Apache-2.0
// A member that a mark declares and that is defined nowhere is an error of the linker once it is
// called. Members that are not called need no definition.
// spec: D41
// link: undefined reference to `etude::derivative_of<
// link: ::jvp(double, double)'
// never: ::vjp
#include "etude/diff.h"

double cube(double x) { return x * x * x; }
ETUDE_DIFFERENTIABLE(cube);
double etude::derivative_of<&cube>::joint(double x, double& dx) {
  dx += 3 * x * x;
  return x * x * x;
}

int main() { return etude::gradient<&cube>(2.0) > 0 ? 0 : etude::derivative<&cube>(2.0) > 0; }
