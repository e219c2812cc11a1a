// SPDX-License-Identifier: Apache-2.0
// Functions that return x.at(..) of a variable of their own, given to differential operators.
// spec: G3
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
#include "etude/autodiff/gradient.h"
#include "etude/ops.h"

using namespace etude;

const Tensor kX({1.0F, 2.0F});
auto of_gradient = gradient(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX);
auto of_value = value_with_gradient(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX);
auto of_pullback = pullback(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX);
auto of_vjp = vjp(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX, kX);
auto of_jvp = jvp(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX, kX);
auto of_hvp = hvp(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX, kX);
auto of_jacobian = jacobian(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX);
auto of_hessian = hessian(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX);
auto of_transpose = transpose(
    [](const Tensor& a) {
      Tensor b = a;
      return b.at(0);
    },
    kX)(kX);
auto of_mixed = gradient(
    [](const auto& a, auto n) {
      Tensor b = a * n;
      return b.at(0);
    },
    kX, 2.0);
