// SPDX-License-Identifier: Apache-2.0
// Search without learning: a way through a small world by value iteration, in tensors, and
// tic-tac-toe in plain C++, which perfect players draw.
//   ./dev run maze
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kRows = 6, kColumns = 8;
constexpr const char* kWorld =  // from S to G, not through #
    "S..#...."
    ".#.#.##."
    ".#...#.."
    ".####..#"
    "......##"
    "###....G";

// Minus the distance of each field from the goal, by iterating worth = best neighbour's worth - 1.
Tensor worth_of_fields(int& rounds) {
  std::vector<float> wall, goal;
  for (int64_t k = 0; k < kRows * kColumns; ++k) {
    wall.push_back(kWorld[k] == '#' ? -1e3F : 0);
    goal.push_back(kWorld[k] == 'G' ? 1 : 0);
  }
  const Tensor walls(wall, {kRows, kColumns}), goals(goal, {kRows, kColumns});
  Tensor worth = full({kRows, kColumns}, -1e3F);
  for (rounds = 0;; ++rounds) {
    const Tensor seen = pad(worth, {1}, {.value = -1e3});
    const auto part = [&](int y, int x) { return slice(seen, {y, x}, {y + kRows, x + kColumns}); };
    const Tensor best = maximum(maximum(part(0, 1), part(2, 1)), maximum(part(1, 0), part(1, 2)));
    const Tensor next = where(goals > 0.0F, 0.0F, maximum(best - 1.0F + walls, -1e3F));
    if (all(next == worth).item<bool>()) return worth;
    worth = next;
  }
}

using Board = std::string;  // nine of ' ', 'X', 'O'

bool wins(const Board& b, char who) {
  static constexpr std::array<std::array<size_t, 3>, 8> kLines = {
      {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {0, 4, 8}, {2, 4, 6}}};
  return std::ranges::any_of(kLines, [&](const auto& line) {
    return std::ranges::all_of(line, [&](size_t at) { return b[at] == who; });
  });
}

// The value for the player to move, over all games from here: 1, 0 or -1. Values are cached.
int worth(const Board& b, char who, std::map<Board, int>& known) {
  const char other = who == 'X' ? 'O' : 'X';
  if (wins(b, other)) return -1;
  if (b.find(' ') == Board::npos) return 0;
  if (const auto found = known.find(b); found != known.end()) return found->second;
  int best = -1;
  for (size_t at = 0; at < 9; ++at) {
    if (b[at] != ' ') continue;
    Board next = b;
    next[at] = who;
    best = std::max(best, -worth(next, other, known));
  }
  return known[b] = best;
}

int main() try {
  int rounds = 0;
  const Tensor far = worth_of_fields(rounds);
  std::printf("%.0f steps to the goal, after %d rounds\n", -far.at(0, 0).item<float>(), rounds);
  std::map<Board, int> known;
  std::printf("tic-tac-toe: worth %d to who begins", worth(Board(9, ' '), 'X', known));
  std::printf(", %zu boards before the end; worth %d after corner and edge\n", known.size(),
              worth("XO       ", 'X', known));
} catch (const Error& error) {
  std::fprintf(stderr, "maze: %s\n", error.what());
  return 1;
}
