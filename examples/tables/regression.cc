// SPDX-License-Identifier: Apache-2.0
// Regression on a table: 13 columns; only five matter (Friedman, 1991: 10 sin(pi x1 x2) + 20 (x3 -
// 1/2)^2 + 10 x4 + 5 x5 and noise of deviation 1), by a network of 3,009 numbers. Writes
// regression.svg: the error by epoch.
//   ./dev run regression [EPOCHS]
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "etude/etude.h"

using namespace etude;

struct Net {
  nn::Dense a{13, 64, {.activation = nn::relu}}, b{64, 32, {.activation = nn::relu}}, c{32, 1};
  Tensor operator()(const Tensor& x) const { return nn::sequenced(x, a, b, c); }
};

data::Samples friedman(int64_t rows) {
  const Tensor x = random::uniform({rows, 13});
  const auto column = [&](int64_t k) { return slice(x, {0, k}, {rows, k + 1}); };
  const Tensor y = 10.0F * sin(std::numbers::pi_v<float> * column(0) * column(1)) +
                   20.0F * square(column(2) - 0.5F) + 10.0F * column(3) + 5.0F * column(4);
  return {x, y + random::normal({rows, 1})};
}

int main(int argc, char** argv) try {
  const int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 200;
  set_seed(7);
  const data::Samples train = friedman(2000), test = friedman(1000);
  data::Loader batches(train, {.batch = 50, .seed = 7});
  Net net;
  std::puts(nn::summary(net, {1, 13}).to_string().c_str());
  optim::RMSProp optimizer({.lr = optim::cosine(1e-2, epochs * batches.steps_per_epoch())});
  io::Curve on_train{"training", {}}, on_test{"test", {}};
  const nn::Callback note = [&](nn::Event event, nn::FitState& state) {
    if (event != nn::Event::kEpochEnd) return;
    on_train.y.push_back(static_cast<float>(state.loss.result()));
    on_test.y.push_back(nn::mean_squared_error(net(test.inputs), test.labels).item<float>());
  };
  nn::fit(net, optimizer, batches, nn::mean_squared_error,
          {.epochs = epochs, .mode = nn::Mode::kStaged, .callbacks = {note}});
  io::write_svg(
      "regression.svg", {on_train, on_test},
      {.title = "Friedman's function", .x = "epoch", .y = "mean squared error", .log_y = true});
  const Tensor guess = net(test.inputs);
  const float error = nn::mean_squared_error(guess, test.labels).item<float>();
  const float spread = var(test.labels).item<float>();
  std::printf("test: mean squared error %.3f (noise alone 1), R2 %.4f\n", error,
              1 - error / spread);
} catch (const Error& error) {
  std::fprintf(stderr, "regression: %s\n", error.what());
  return 1;
}
