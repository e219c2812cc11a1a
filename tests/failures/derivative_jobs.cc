// SPDX-License-Identifier: Apache-2.0
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace derivative_parts {

Tensor curve(const Tensor& x) { return sum(x * tanh(x) * x); }

std::string of_function() {
  const auto f = function([](const Tensor& x) { return curve(x); });
  return bits(gradient([&](const Tensor& x) { return f(x); })(counted({2, 3})));
}

std::string staged_slopes() {
  const auto f = function([](const Tensor& x) { return gradient(curve, x); });
  return bits(f(counted({2, 3})));
}

std::string by_tape() {
  GradientTape tape({.persistent = true});
  const Tensor x = counted({3}) * 1.0F;
  tape.watch(x);
  const Tensor y = tanh(x) * x, z = sum(y * y);
  return bits(tape.gradient(z, x)) + bits(tape.gradient(sum(y), x)) + bits(tape.jacobian(y, x));
}

// A tape after a failure: the next gradient is right.
Run one_tape() {
  auto v = std::make_shared<Variable>(counted({3}));
  return {[v] {
            GradientTape tape;
            const Tensor y = sum(v->read() * v->read());
            return bits(tape.gradient(y, *v));
          },
          [v] { return bits(v->read()); }};
}

std::string forward() {
  const auto [y, dy] =
      jvp([](const Tensor& x) { return tanh(x) * sum(x); }, counted({3}), ones({3}));
  return bits(y) + bits(dy);
}

std::string second() {
  return bits(hessian(curve, counted({3}))) + bits(hvp(curve, counted({3}), ones({3}))) +
         bits(jacobian([](const Tensor& x) { return x * sum(x); }, counted({3})));
}

std::string batched() {
  return bits(vmap([](const Tensor& x) { return x * sum(x); })(counted({2, 3}))) +
         bits(vmap(gradient(curve))(counted({2, 3})));
}

std::string recomputed() {
  const auto f = recompute_grad([](const Tensor& x) { return tanh(x) * x; });
  return bits(gradient([&](const Tensor& x) { return sum(f(x)); }, counted({3}))) +
         bits(gradient(
             [](const Tensor& x) {
               return sum(
                   checkpointed(3, x, [](std::size_t, const Tensor& s) { return tanh(s) * s; }));
             },
             counted({3})));
}

std::string custom() {
  const auto f = custom_gradient([](const Tensor& y) {
    return std::pair{y * y, [y](const Tensor& dy) { return dy * 3.0F * y; }};
  });
  const auto back = pullback([](const Tensor& x) { return tanh(x); }, counted({3}));
  return bits(gradient([&](const Tensor& x) { return sum(f(x)); }, counted({3}))) +
         bits(back(ones({3}))) + bits(back(ones({3}) * 2.0F));
}

std::string loops() {
  const auto f = [](const Tensor& x) {
    const auto [i, s] =
        while_loop([](const Tensor& i, const Tensor&) { return i < 3; },
                   [](const Tensor& i, const Tensor& s) { return std::tuple(i + 1, s * tanh(s)); },
                   std::tuple(Tensor(0), x));
    const Tensor rows = stack({x, s});
    return sum(fold([](const Tensor& a, const Tensor& row) { return a * row + a; }, s, rows));
  };
  return bits(gradient(f, counted({3})));
}

std::string of_numbers() {
  const auto f = [](auto x, auto y) { return x * x * y + x; };
  const auto [dx, dy] = gradient(f, 1.5, 2.0);
  return std::to_string(dx) + " " + std::to_string(dy);
}

std::string models() {
  nn::Dense layer(2, 3, {.activation = nn::tanh});
  layer.weight = counted({2, 3}) * 0.1F;
  const auto slopes = gradient([](const nn::Dense& l) { return sum(l(ones({4, 2}))); }, layer);
  return bits(slopes.weight) + bits(slopes.bias);
}

std::vector<Job> derivative_jobs() {
  return {
      plain_job("gradient",
                [] {
                  return bits(gradient(curve)(counted({2, 3})));
                }),
      plain_job("gradient: of a staged function", of_function),
      plain_job("gradient: inside a staged function", staged_slopes),
      plain_job("gradient: persistent tape", by_tape),
      {"gradient: tape of a Variable", one_tape},
      plain_job("gradient: forward mode", forward),
      plain_job("gradient: hessian, hvp, jacobian", second),
      plain_job("gradient: vmap", batched),
      plain_job("gradient: recomputed", recomputed),
      plain_job("gradient: custom rules, pullbacks", custom),
      plain_job("gradient: loops", loops),
      plain_job("gradient: numbers", of_numbers),
      plain_job("gradient: a layer", models),
  };
}

}  // namespace derivative_parts

std::vector<Job> derivative_jobs() { return derivative_parts::derivative_jobs(); }

}  // namespace etude::failures
