// SPDX-License-Identifier: Apache-2.0
// A tiny BERT separates positive from negative reviews. Each review has a verdict, good or bad,
// somewhere among neutral words, and perhaps a "not" right before it; padding fills the rest.
//   ./dev run bert [STEPS]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kBatch = 64, kTime = 12;
constexpr int32_t kPad = 0, kStart = 1, kGood = 2, kNot = 4, kFirstOther = 5,
                  kWords = 24;  // 3: bad

struct Reviews {
  nn::TokenBatch tokens;
  Tensor labels;
};
Reviews reviews(int64_t n) {
  const auto draw = [&](int64_t low, int64_t high) { return random::randint({n, 1}, low, high); };
  const Tensor at = expand_dims(arange(kTime, {.dtype = kInt32}), {0});
  const Tensor length = draw(6, kTime + 1), is_bad = draw(0, 2), is_negated = draw(0, 2);
  const Tensor place = 2 + remainder(draw(0, 1000), length - 2);
  Tensor ids = random::randint({n, kTime}, kFirstOther, kWords);
  ids = where(at == place, kGood + is_bad, ids);
  ids = where(logical_and(at == place - 1, is_negated == 1), kNot, ids);
  ids = where(at == 0, kStart, ids);
  const Tensor mask = at < length;
  return {{.ids = where(mask, ids, kPad), .mask = mask},
          squeeze(remainder(is_bad + is_negated, 2), {1})};
}

struct Classifier {
  nn::TextEncoder encoder{{.vocabulary = kWords,
                           .positions = kTime,
                           .types = 1,
                           .dim = 32,
                           .layers = 2,
                           .heads = 4,
                           .hidden = 64,
                           .dropout = 0}};
  nn::Dense verdict{32, 2};
  Tensor operator()(const nn::TokenBatch& tokens) const { return verdict(encoder.pooled(tokens)); }
};

float accuracy(const Classifier& model, const Reviews& r) {
  const Tensor said = astype(argmax(model(r.tokens), {.axis = 1}), kInt32);
  return mean(astype(said == r.labels, kFloat32)).item<float>();
}

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 400;
  set_seed(1);
  Classifier model;
  optim::AdamW adam({.lr = optim::cosine(3e-3, steps)});
  const auto step = function([](Classifier& m, optim::AdamW& optimizer, const Reviews& r) {
    const auto [cost, slopes] = value_with_gradient(
        [&](const Classifier& c) { return nn::softmax_cross_entropy(c(r.tokens), r.labels); }, m);
    optimizer.update(m, slopes);
    return cost;
  });
  const Reviews test = reviews(1000);
  const float first = accuracy(model, test);
  for (int k = 0; k < steps; ++k) {
    const float cost = step(model, adam, reviews(kBatch)).item<float>();
    if (k % 50 == 0) std::printf("step %3d  loss %.4f\n", k, cost);
  }
  std::printf("accuracy %.3f at first, %.3f in the end\n", first, accuracy(model, test));
} catch (const Error& error) {
  std::fprintf(stderr, "bert: %s\n", error.what());
  return 1;
}
