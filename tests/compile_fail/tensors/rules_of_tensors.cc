// SPDX-License-Identifier: Apache-2.0
// Rules of functions on tensors without a member that fits, or of a wrong shape.
// Functions without a signature.
// spec: D42
// error: etude: a derivative_of<F> of a function of tensors needs a vjp or a jvp that takes these
// error: etude: derivative_of<F>::vjp must take F's parameters and return pair{value, pullback(
// error: etude: function() of a generic lambda, or of a class with several call operators, needs
#include "etude/etude.h"

using namespace etude;

Tensor without_members(const Tensor& x) { return log(x); }
template <>
struct etude::derivative_of<&without_members> {};
auto without_rule = differentiable<&without_members>(Tensor(1.0F));

Tensor wrong_shape(const Tensor& x) { return log(x); }
template <>
struct etude::derivative_of<&wrong_shape> {
  static auto vjp(const Tensor& x) { return log(x); }
};
auto of_wrong_shape = differentiable<&wrong_shape>(Tensor(1.0F));

auto without_signature = function([](const auto& x) { return x + x; });
