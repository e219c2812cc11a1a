// SPDX-License-Identifier: Apache-2.0
// Types with tangents of their own that hold tensors, and models with numbers of the host, where no
// derivative or optimiser can go.
// spec: D11
// error: etude: the result of a function of tensors is of a type with a tangent of its own
// error: etude: the result of a function of tensors is of a type with a tangent of its own
// error: etude: a type whose DifferentiableTraits have a tangent with tensors must show its own
// error: etude: a rule takes tensors; a type with a tangent of its own (DifferentiableTraits)
// error: etude: no derivative with respect to an AnyDifferentiable exists, since it hides its
// error: etude: optimisers step tensors, but the tangent of the model has numbers of the host
// error: etude: optimisers step tensors, but the tangent of the model has numbers of the host
// error: etude: lbfgs goes along straight lines, but a part of the model moves by its own rule
#include "etude/diff/any_differentiable.h"
#include "etude/etude.h"

using namespace etude;

template <int n>
struct Sphere {
  Tensor v;
};
template <int n>
struct etude::DifferentiableTraits<Sphere<n>> {
  using Tangent = Tensor;
  static Tensor zero(const Sphere<n>& x) { return zeros_like(x.v); }
  static void move(Sphere<n>& x, const Tensor& by) { x.v = x.v + by; }
};
auto result = pullback([](const Tensor& x) { return Sphere<1>{x}; }, Tensor(1.0F));
auto forward = jvp([](const Tensor& x) { return Sphere<2>{x}; }, Tensor(1.0F), Tensor(1.0F)).second;

struct Hidden {
  const Tensor* v;
};
template <>
struct etude::DifferentiableTraits<Hidden> {
  using Tangent = Tensor;
  static Tensor zero(const Hidden& x) { return zeros_like(*x.v); }
  static void move(Hidden&, const Tensor&) {}
};
struct HasHidden {
  Hidden hidden;
  Tensor w;
};
auto hidden = gradient([](const HasHidden& x) { return *x.hidden.v * x.w; }, HasHidden());

auto of_rule = custom_gradient([](const Sphere<3>& x) {
  return std::pair{x.v, [](const Tensor& dy) { return dy; }};
})(Sphere<3>());

struct HasAny {
  AnyDifferentiable any = AnyDifferentiable(Tensor(3.0F));
  Tensor w;
};
auto of_any = gradient([](const HasAny& x) { return x.any.get<Tensor>() * x.w; }, HasAny());

struct Pose {
  double c, s;
  Tensor offset;
};
struct PoseTangent {
  double turn = 0;
  Tensor offset;
};
template <>
struct etude::DifferentiableTraits<Pose> {
  using Tangent = PoseTangent;
  static PoseTangent zero(const Pose& x) { return {0, zeros_like(x.offset)}; }
  static void move(Pose& x, const PoseTangent& by) { x.offset = x.offset + by.offset; }
};
struct Gain {
  double gain = 1;
  Tensor w;
};
void steps(Pose& pose, const PoseTangent& by, Gain& gain, Sphere<4>& direction) {
  optim::SGD().update(pose, by);
  optim::Adam().update(gain, zero_tangent(gain));
  optim::lbfgs(direction, [](const Sphere<4>& x) { return sum(x.v); });
}
