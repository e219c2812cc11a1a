// SPDX-License-Identifier: Apache-2.0
// Catch: a ball falls through a field of 8 by 8, and a paddle must catch it. The player sees pixels
// and learns by the gradient of its policy, in parallel games. Writes catch_ball.svg: the share of
// balls caught, by update.
//   ./dev run catch_ball [UPDATES]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kSide = 8, kGames = 64;

struct Policy {
  nn::Dense hidden{2 * kSide * kSide, 64, {.activation = nn::relu}}, way{64, 3};
  Tensor operator()(const Tensor& pixels) const { return nn::sequenced(pixels, hidden, way); }
};

struct Game {
  Tensor ball = random::randint({kGames}, 0, kSide), drift = random::randint({kGames}, -1, 2);
  Tensor paddle = random::randint({kGames}, 0, kSide);
  int64_t row = 0;

  // The positions of the ball, now and before, and of the paddle.
  Tensor pixels() const {
    const Tensor ball_at = one_hot(ball + kSide * row, kSide * kSide);
    const Tensor paddle_at = one_hot(paddle + kSide * (drift + 1), kSide * kSide);
    return astype(concat({ball_at, paddle_at}, {.axis = 1}), kFloat32);
  }
  void step(const Tensor& way) {  // 0 left, 1 stay, 2 right; the ball falls and may bounce
    paddle = clip(paddle + way - 1, {.min = Tensor(0), .max = Tensor(int32_t{kSide - 1})});
    const Tensor next = ball + drift;
    drift = where(logical_or(next < 0, next >= int32_t{kSide}), -drift, drift);
    ball += drift;
    ++row;
  }
  Tensor caught() const { return astype(ball == paddle, kFloat32); }
};

int main(int argc, char** argv) try {
  const int updates = argc > 1 ? std::atoi(argv[1]) : 300;
  set_seed(1);
  Policy policy;
  optim::Adam adam({.lr = 3e-3});
  io::Curve curve{"caught", {}};
  float last = 0;
  const auto play = [&](bool learns) {
    Game game;
    std::vector<Tensor> seen, ways;
    while (game.row + 1 < kSide) {
      seen.push_back(game.pixels());
      const Tensor logits = policy(seen.back());
      ways.push_back(learns ? random::categorical(logits)
                            : astype(argmax(logits, {.axis = 1}), kInt32));
      game.step(ways.back());
    }
    const Tensor caught = game.caught(), better = caught - mean(caught);
    if (!learns) return mean(caught).item<float>();
    const Tensor all = concat(seen, {.axis = 0}), chosen = concat(ways, {.axis = 0});
    const Tensor weight = concat(std::vector<Tensor>(seen.size(), better), {.axis = 0});
    const auto cost = [&](const Policy& p) {
      return mean(nn::softmax_cross_entropy(p(all), chosen, {.reduction = "none"}) * weight);
    };
    adam.update(policy, gradient(cost, policy));
    return mean(caught).item<float>();
  };
  for (int k = 0; k < updates; ++k) curve.y.push_back(play(true));
  for (int k = 0; k < 10; ++k) last += play(false) / 10;
  io::write_svg("catch_ball.svg", {curve}, {.title = "Catch", .x = "update", .y = "caught"});
  std::printf("caught %.3f of the balls at first, %.3f in the end\n", curve.y.front(), last);
} catch (const Error& error) {
  std::fprintf(stderr, "catch_ball: %s\n", error.what());
  return 1;
}
