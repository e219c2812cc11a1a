// SPDX-License-Identifier: Apache-2.0
// Functions that return x.at(..) of a local variable, where no derivative is taken.
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
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
// error: etude: the function returns x.at(..), which refers to its variable x and not to a value
#include "etude/etude.h"

using namespace etude;

const Tensor kX({1.0F, 2.0F}), kTrue(true);

auto of_vmap = vmap([](const Tensor& a) {
  Tensor b = a;
  return b.at(0);
})(kX);
auto of_function = function([](const Tensor& a) {
  Tensor b = a;
  return b.at(0);
});
auto of_signature = function<Tensor(const Tensor&)>([](const auto& a) {
  Tensor b = a;
  return b.at(0);
});
auto of_cond = cond(
    true,
    [] {
      Tensor b = kX;
      return b.at(0);
    },
    [] { return kX; });
auto of_else = cond(
    true, [] { return kX; },
    [] {
      Tensor b = kX;
      return b.at(0);
    });
auto of_while = while_loop(
    [](const Tensor& a) {
      Tensor b = a > 0;
      return b.at(0);
    },
    [](const Tensor& a) { return a; }, kX);
auto of_body = while_loop([](const Tensor&) { return kTrue; },
                          [](const Tensor& a) {
                            Tensor b = a;
                            return b.at(0);
                          },
                          kX);
auto of_fold = fold(
    [](const Tensor& a, const Tensor&) {
      Tensor b = a;
      return b.at(0);
    },
    kX, kX);
auto of_recompute = recompute_grad([](const Tensor& a) {
  Tensor b = a;
  return b.at(0);
})(kX);
auto of_init = init_scope([] {
  Tensor b = kX;
  return b.at(0);
});
auto of_call_time = call_time_value([] {
  Tensor b = kX;
  return b.at(0);
});
Variable of_variable([] {
  Tensor b = kX;
  return b.at(0);
});
nn::Activation of_activation([](const Tensor& a) {
  Tensor b = a;
  return b.at(0);
});
auto of_layer = nn::sequenced(kX, [](const Tensor& a) {
  Tensor b = a;
  return b.at(0);
});
nn::Reduction of_reduction([](const Tensor& a) {
  Tensor b = a;
  return b.at(0);
});
auto of_map = data::count_up(3).map([](const auto&) {
  Tensor b = kX;
  return b.at(0);
});
