// SPDX-License-Identifier: Apache-2.0
// A tree search through the moves of a board, guided by a network (Silver et al., 2017). Used by
// go.cc.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "examples/games/go_net.h"

namespace go {

// A board, with the statistics of the search for each move.
struct Node {
  Board board;
  std::vector<float> chance = std::vector<float>(kFields + 1, 0), visits = chance, sum = chance;
  std::vector<std::unique_ptr<Node>> next = std::vector<std::unique_ptr<Node>>(kFields + 1);
  std::vector<bool> is_refused = std::vector<bool>(kFields + 1, false);
  float worth = 0;

  explicit Node(const Board& given, const Net& net) : board(given) {
    if (board.is_over()) {
      worth = static_cast<float>(std::tanh(board.score() * board.turn() / 15));
      return;
    }
    const Said said = net(planes(board));
    chance = nn::softmax(reshape(said.moves, {kFields + 1})).to_vector<float>();
    worth = said.worth.item<float>();
  }
  // The move with the largest sum of its mean value (the board's value if it is new) and its
  // uncertainty.
  size_t choose() const {
    float all = 1, best = -1e9F;
    for (const float n : visits) all += n;
    size_t found = kPass;
    for (size_t k = 0; k < kFields; ++k) {  // a pass only if there is no other
      const float mean = visits[k] > 0 ? sum[k] / visits[k] : worth;
      const float value = mean + 0.3F * chance[k] * std::sqrt(all) / (1 + visits[k]);
      if (!is_refused[k] && value > best) best = value, found = k;
    }
    return found;
  }
  // Looks ahead once more. Returns the value for the player to move.
  float look(const Net& net) {
    if (board.is_over()) return worth;
    for (;;) {
      const size_t k = choose();
      float value = 0;
      if (next[k]) {
        value = -next[k]->look(net);
      } else {
        Board after = board;
        if (!after.play(static_cast<int>(k))) {
          is_refused[k] = true;
          continue;
        }
        next[k] = std::make_unique<Node>(after, net);
        value = -next[k]->worth;
      }
      visits[k] += 1, sum[k] += value;
      return value;
    }
  }
};

// The share of each move in the looks; of moves with equal looks, the better move gets more.
inline std::vector<float> by_search(const Board& board, const Net& net, int looks) {
  Node root(board, net);
  for (int k = 0; k < looks; ++k) root.look(net);
  float all = 0;
  for (size_t k = 0; k <= kFields; ++k) {
    if (root.visits[k] > 0) root.visits[k] += 0.5F * root.sum[k] / root.visits[k];
    all += root.visits[k];
  }
  for (float& n : root.visits) n /= all;
  return root.visits;
}

}  // namespace go
