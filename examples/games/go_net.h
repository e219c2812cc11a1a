// SPDX-License-Identifier: Apache-2.0
// A network that predicts the next move and the winner of a board. Used by go_search.h.
#pragma once

#include <vector>

#include "etude/etude.h"
#include "examples/games/go.h"

namespace go {

using namespace etude;

// Planes of own stones, of the other side's stones, and of black's turn: [1, 9, 9, 3].
inline Tensor planes(const Board& board) {
  std::vector<float> x;
  for (int field = 0; field < kFields; ++field) {
    for (const bool is :
         {board.at(field) == board.turn(), board.at(field) == -board.turn(), board.turn() == 1})
      x.push_back(is ? 1 : 0);
  }
  return Tensor(x, {1, kSide, kSide, 3});
}

struct Said {
  Tensor moves, worth;  // [n, 82] logits; [n] in [-1, 1], for the player to move
};
struct Net {
  nn::Conv2D a{3, 3, 32, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D b{3, 32, 32, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D c{3, 32, 32, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D place{1, 32, 2, {.activation = nn::relu}};
  nn::Dense move{2 * kFields, kFields + 1}, hidden{32 + kFields * 2, 32, {.activation = nn::relu}},
      win{32, 1, {.activation = nn::tanh}};
  Said operator()(const Tensor& boards) const {
    const Tensor seen = nn::sequenced(boards, a, b, c);
    const Tensor places = flatten(place(seen), {.start = 1});
    const Tensor all = concat({mean(seen, {.axis = {1, 2}}), places}, {.axis = 1});
    return {move(places), squeeze(win(hidden(all)), {1})};
  }
};

}  // namespace go
