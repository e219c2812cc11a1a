// SPDX-License-Identifier: Apache-2.0
// Blackjack by Monte Carlo control: thousands of hands in parallel, as rows of tensors, and a table
// with the mean result of staying and of taking a card.
//   ./dev run blackjack [ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kHands = 4096, kRows = 22 * 24;

struct Hand {
  Tensor points = zeros({kHands}, {.dtype = kInt32}), aces = points;  // aces that count 11: 0 or 1
  void take(const Tensor& takes) {                                    // takes: 0 or 1 by hand
    const Tensor card = minimum(random::randint({kHands}, 1, 14), 10) * takes;
    const Tensor ace = astype(logical_and(card == 1, points <= 10), kInt32);
    points += card + 10 * ace;
    aces += ace;
    const Tensor too_many = astype(points > 21, kInt32) * aces;
    points -= 10 * too_many;
    aces -= too_many;
  }
};
struct Table {
  Tensor sum = zeros({kRows, 2}), count = zeros({kRows, 2});
  Tensor worth() const { return sum / maximum(count, 1e-3F); }
};

// Plays hands by the table, with a random choice at the given chance, and learns from them. Returns
// the mean win.
float play(Table& table, float chance, bool learns) {
  Hand own, dealer;
  const Tensor all = ones({kHands}, {.dtype = kInt32}), worth = table.worth();
  for (Hand* hand : {&dealer, &own, &own}) hand->take(all);
  Tensor plays = all, shown = dealer.points;
  std::vector<Tensor> chosen, counts;  // by card
  for (int card = 0; card < 8; ++card) {
    plays *= astype(own.points < 21, kInt32);
    const Tensor row = minimum(own.points, 21) * 24 + own.aces * 12 + shown;
    const Tensor best = astype(argmax(take(worth, row, {.axis = 0}), {.axis = 1}), kInt32);
    const Tensor tries = random::bernoulli(Tensor(chance), {kHands});
    const Tensor takes = where(tries, random::randint({kHands}, 0, 2), best) * plays;
    chosen.push_back(row * 2 + takes);
    counts.push_back(astype(plays, kFloat32));
    own.take(takes);
    plays = takes;
  }
  for (int card = 0; card < 10; ++card) dealer.take(astype(dealer.points < 17, kInt32));
  const Tensor lead = where(dealer.points > 21, 1, sign(own.points - dealer.points));
  const Tensor won = astype(where(own.points > 21, -1, lead), kFloat32);
  for (size_t k = 0; learns && k < chosen.size(); ++k) {
    const auto by_row = [&](const Tensor& x) {
      return reshape(segment_sum(x, chosen[k], 2 * kRows), {kRows, 2});
    };
    table.sum = 0.995F * table.sum + by_row(won * counts[k]);  // forgets results of worse play
    table.count = 0.995F * table.count + by_row(counts[k]);
  }
  return mean(won).item<float>();
}

int main(int argc, char** argv) try {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 400;
  set_seed(1);
  Table table;
  nn::Mean by_chance, learned;
  for (int k = 0; k < rounds; ++k) by_chance.update(play(table, 1, true));
  for (int k = 0; k < rounds; ++k) play(table, 0.1F, true);
  for (int k = 0; k < rounds; ++k) learned.update(play(table, 0, false));
  std::printf("a hand wins %.3f, by chance %.3f\n", learned.result(), by_chance.result());
  for (const int points : {20, 12}) {
    const bool stays = argmax(table.worth().at(points * 24 + 10)).item<int64_t>() == 0;
    std::printf("with %d against 10 it %s\n", points, stays ? "stays" : "takes a card");
  }
} catch (const Error& error) {
  std::fprintf(stderr, "blackjack: %s\n", error.what());
  return 1;
}
