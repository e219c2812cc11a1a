// SPDX-License-Identifier: Apache-2.0
// Finds a way over a frozen lake with holes by Q-learning (Watkins, 1989). A step goes in the
// chosen direction in one of three cases, and aside in the others. Hundreds of walkers move in
// parallel, as rows of tensors. Prints the best direction for each field.
//   ./dev run frozen_lake [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kWalkers = 512;
constexpr const char* kLake = "SFFFFHFHFFFHHFFG";  // start, frozen, hole, goal

// Where left, down, right and up lead from each field: [64].
Tensor moves() {
  std::vector<int32_t> to;
  for (int at = 0; at < 16; ++at) {
    for (const auto& [down, right] : {std::pair(0, -1), {1, 0}, {0, 1}, {-1, 0}})
      to.push_back(std::clamp(at / 4 + down, 0, 3) * 4 + std::clamp(at % 4 + right, 0, 3));
  }
  return Tensor(to);
}
Tensor fields(char kind) {
  std::vector<float> is;
  for (int at = 0; at < 16; ++at) is.push_back(kLake[at] == kind ? 1 : 0);
  return Tensor(is);
}

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4000;
  set_seed(1);
  const Tensor to = moves(), goal = fields('G'), end = goal + fields('H');
  const auto of = [](const Tensor& table, const Tensor& at) {
    return take(table, at, {.axis = 0});
  };
  Tensor worth = zeros({16, 4}), at = zeros({kWalkers}, {.dtype = kInt32});
  const Tensor one = ones({kWalkers});
  float goals = 0, ends = 0;
  for (int k = 0; k < 2 * steps; ++k) {
    const bool learns = k < steps;
    const Tensor best = astype(argmax(of(worth, at), {.axis = 1}), kInt32);
    const Tensor tries = random::bernoulli(Tensor(learns ? 0.3F : 0.0F), {kWalkers});
    const Tensor way = where(tries, random::randint({kWalkers}, 0, 4), best);
    const Tensor slips = remainder(way + random::randint({kWalkers}, 3, 6), 4);
    const Tensor next = of(to, at * 4 + slips), over = of(end, next);
    if (learns) {
      const Tensor later = 0.99F * (1.0F - over) * max(of(worth, next), {.axis = {1}});
      const Tensor pair = at * 4 + way;
      const Tensor count = reshape(segment_sum(one, pair, 64), {16, 4});
      const Tensor sum = reshape(segment_sum(of(goal, next) + later, pair, 64), {16, 4});
      const float rate = 0.2F * (1 - static_cast<float>(k) / static_cast<float>(steps));
      worth += rate * where(count > 0.0F, sum / maximum(count, 1.0F) - worth, 0.0F);
    } else {
      goals += sum(of(goal, next)).item<float>();
      ends += sum(over).item<float>();
    }
    at = where(over > 0.0F, 0, next);
  }
  const std::vector<int64_t> best = argmax(worth, {.axis = 1}).to_vector<int64_t>();
  for (size_t k = 0; k < 16; ++k)
    std::printf("%c%s", kLake[k] == 'H' || kLake[k] == 'G' ? kLake[k] : "<v>^"[best[k]],
                k % 4 == 3 ? "\n" : " ");
  std::printf("reaches the goal in %.3f of %.0f walks\n", goals / ends, ends);
} catch (const Error& error) {
  std::fprintf(stderr, "frozen_lake: %s\n", error.what());
  return 1;
}
