// SPDX-License-Identifier: Apache-2.0
// Balances the pole of cart_pole.cc by deep Q-learning (Mnih et al., 2015). Past steps are drawn
// from a memory, and an older copy of the network predicts the value of the next state.
//   ./dev run deep_q [STEPS]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/control/cart.h"

using namespace cart;

constexpr int64_t kCarts = 8, kBatch = 64, kMemory = 20000;
constexpr float kDiscount = 0.99F;

struct Worth {
  nn::Dense a{4, 100, {.activation = nn::relu}}, b{100, 100, {.activation = nn::relu}}, c{100, 2};
  Tensor operator()(const Tensor& state) const { return nn::sequenced(state, a, b, c); }
};

// The latest steps as rows. A new step replaces the oldest row.
struct Memory {
  Tensor state = zeros({kMemory, 4}), next = zeros({kMemory, 4}), goes_on = zeros({kMemory});
  Tensor push = zeros({kMemory}, {.dtype = kInt32});
};

int main(int argc, char** argv) try {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 10000;
  set_seed(4);
  Worth worth, behind = worth;
  Memory memory;
  optim::Adam adam({.lr = 1e-3});
  const auto learn = function([](Worth& now, optim::Adam& optimizer, const Worth& target,
                                 const Memory& seen, const Tensor& rows) {
    const auto part = [&](const Tensor& x) { return take(x, rows, {.axis = 0}); };
    const Tensor later = max(target(part(seen.next)), {.axis = {1}});
    const Tensor goal = 1.0F + kDiscount * part(seen.goes_on) * later;
    const auto cost = [&](const Worth& w) {
      const Tensor pushes = expand_dims(part(seen.push), {1});
      const Tensor said = take_along_axis(w(part(seen.state)), pushes, {.axis = 1});
      return nn::huber_loss(squeeze(said, {1}), goal, {.reduction = "mean"});
    };
    optimizer.update(now, gradient(cost, now));
  });

  Tensor state = begin(kCarts), stood = zeros({kCarts});
  std::vector<float> lengths;
  for (int64_t k = 0; k < steps; ++k) {
    const double curious = std::max(0.05, 1 - static_cast<double>(k) / 1500);
    const Tensor best = astype(argmax(worth(state), {.axis = 1}), kInt32);
    const Tensor tries = random::bernoulli(full({kCarts}, static_cast<float>(curious)));
    const Tensor push = where(tries, random::randint({kCarts}, 0, 2), best);
    const Tensor next = advance(state, push), up = stands(next);
    const int64_t row = k * kCarts % kMemory;
    memory.state.at(slice(row, row + kCarts)) = state;
    memory.next.at(slice(row, row + kCarts)) = next;
    memory.push.at(slice(row, row + kCarts)) = push;
    memory.goes_on.at(slice(row, row + kCarts)) = up;
    stood += 1.0F;
    const Tensor ends = logical_or(up == 0.0F, stood >= 200.0F);
    for (const float length : boolean_mask(stood, ends).to_vector<float>())
      lengths.push_back(length);
    state = where(expand_dims(ends, {1}), begin(kCarts), next);
    stood = where(ends, 0.0F, stood);
    if (k >= 100)
      learn(worth, adam, behind, memory,
            random::randint({kBatch}, 0, std::min(kMemory, k * kCarts)));
    if (k % 200 == 0) behind = worth;
    if (k % 1000 == 999)
      std::printf("step %5lld  episodes %zu  the last stood %.0f\n", static_cast<long long>(k + 1),
                  lengths.size(), lengths.back());
  }
  lengths.erase(lengths.begin(), lengths.end() - std::min<std::ptrdiff_t>(20, std::ssize(lengths)));
  std::printf("the last %zu episodes: %.1f of 200 steps\n", lengths.size(),
              mean(Tensor(lengths)).item<float>());
} catch (const Error& error) {
  std::fprintf(stderr, "deep_q: %s\n", error.what());
  return 1;
}
