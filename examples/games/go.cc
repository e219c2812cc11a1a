// SPDX-License-Identifier: Apache-2.0
// A small player of Go on 9 by 9 (after Silver et al., 2017). A network learns from random games,
// then from games of a search that it guides; at last the search plays a random player.
//   ./dev run go [GAMES [OWN_GAMES [LOOKS [ROUNDS]]]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "examples/games/go_search.h"

using namespace go;

std::mt19937 generator(1);  // NOLINT(cert-msc51-cpp): the same games each time

struct Moments {
  Tensor boards, moves, won;  // [n, 9, 9, 3]; [n, 82] chances; [n] in [-1, 1], for the mover
  std::string record;         // the moves, and the score
};

// Plays a game; `choose` returns the chances of the moves of a board.
template <class Choose>
Moments play(const Choose& choose) {
  Board board;
  std::vector<Tensor> boards, moves;
  std::vector<float> turns;
  std::string record;
  while (!board.is_over()) {
    const std::vector<float> chances = choose(board);
    boards.push_back(planes(board));
    moves.push_back(Tensor(chances));
    turns.push_back(static_cast<float>(board.turn()));
    std::discrete_distribution<int> any(chances.begin(), chances.end());
    const int field = any(generator);
    if (board.play(field)) record += std::to_string(field) + " ";
  }
  const auto lead = static_cast<float>(std::tanh(board.score() / 15));
  return {concat(boards, {.axis = 0}), stack(moves), lead * Tensor(turns),
          record + "score " + std::to_string(board.score())};
}

Tensor loss(const Net& net, const Moments& m) {
  const Said said = net(m.boards);
  return nn::softmax_cross_entropy(said.moves, m.moves) + mean(square(said.worth - m.won));
}

int main(int argc, char** argv) try {
  const auto number = [&](int k, int unless) { return argc > k ? std::atoi(argv[k]) : unless; };
  const int games = number(1, 400), own_games = number(2, 40), looks = number(3, 60);
  const int rounds = number(4, 10);
  set_seed(1);
  Net net;
  optim::Adam adam({.lr = 1e-3});
  const auto search = [&](const Board& board) { return by_search(board, net, looks); };
  for (int k = 0; k < games + own_games; ++k) {
    const Moments m = k < games ? play(by_chance) : play(search);
    const auto [cost, slopes] = value_with_gradient([&](const Net& n) { return loss(n, m); }, net);
    adam.update(net, slopes);
    if (k % std::max(1, games / 8) == 0)
      std::printf("game %3d  loss %.3f\n", k, cost.item<float>());
  }
  int won = 0;
  for (int k = 0, own = 1; k < rounds; ++k, own = -own) {
    const Moments m = play([&](const Board& board) {
      if (board.turn() != own) return by_chance(board);
      std::vector<float> chances = search(board);
      const float best = std::ranges::max(chances);
      for (float& x : chances) x = x < best ? 0 : x;
      return chances;
    });
    if (k == 0) std::printf("a game: %s\n", m.record.c_str());
    won += m.won.at(k % 2).item<float>() > 0;
  }
  std::printf("the search wins %d of %d games against chance\n", won, rounds);
} catch (const Error& error) {
  std::fprintf(stderr, "go: %s\n", error.what());
  return 1;
}
