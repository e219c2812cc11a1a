// SPDX-License-Identifier: Apache-2.0
// Marks of functions whose derivative cannot be declared, and calls for which a rule has no member.
// spec: GEN1, G1.a, G10, G15, D41
// error: etude: ETUDE_DIFFERENTIABLE: the function takes a reference that it may write: take the
// error: etude: ETUDE_DIFFERENTIABLE: the result of the function is not Differentiable: return
// error: etude: an argument is not Differentiable; wrap it in no_derivative(), or pass the value
// error: etude: ETUDE_DIFFERENTIABLE takes a function or a const member function: return the
// error: etude: differential: derivative_of<F> has only a reverse rule, and a struct among the
// error: etude: derivative_of<F> has no vjp, jvp or joint that takes these arguments. A rule of
// error: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
#include "etude/diff.h"

double written(double& x) { return x *= 2; }
ETUDE_DIFFERENTIABLE(written);

bool is_positive(double x) { return x > 0; }
ETUDE_DIFFERENTIABLE(is_positive);

double first(const double* x) { return *x; }
ETUDE_DIFFERENTIABLE(first);

struct Counter {
  double n;
  double next(double by) { return n += by; }
};
ETUDE_DIFFERENTIABLE(Counter::next);

struct Spring {
  double stiffness;
  double force(double x) const { return stiffness * x; }
};
template <>
struct etude::derivative_of<&Spring::force> {
  static auto vjp(const Spring& s, double x) {
    return std::pair{s.force(x), [s, x](double dy, Spring& ds, double& dx) {
                       ds.stiffness += dy * x;
                       dx += dy * s.stiffness;
                     }};
  }
};
auto only_reverse = etude::differential<&Spring::force>(Spring{2}, 3.0)(Spring{1}, 1.0);

double cube(double x) { return x * x * x; }
ETUDE_DIFFERENTIABLE(cube);
auto second = etude::derivative(
    [](auto x) { return etude::derivative(etude::differentiable<&cube>, x); }, 2.0);

double plain(double x) { return x; }
auto unmarked = etude::jvp<&plain>(2.0, 1.0);
