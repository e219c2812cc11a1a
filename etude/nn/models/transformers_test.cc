// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/models/transformers.h"

#include <gtest/gtest.h>

#include "etude/core/context/ambient.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/summary.h"
#include "etude/nn/test_gradient.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "tests/expect_error.h"

namespace etude::nn {
namespace {

using etude::tests::expect_message;

template <class Make>
void expect_count(int64_t published, int64_t last, const Make& make) {
  const Summary found = summary_of(make, {{2, 16}, kInt32});
  EXPECT_EQ(found.parameters, published);
  EXPECT_EQ(found.result, (Shape{2, 16, last}));
}

// spec: EX30
// Counts of the published checkpoints, from the library transformers.
TEST(TextModels, HaveThePublishedCounts) {
  expect_count(109482240, 768, [] { return models::bert("base"); });
  expect_count(335141888, 1024, [] { return models::bert("large"); });
  expect_count(124645632, 768, [] { return models::roberta("base"); });
  expect_count(355359744, 1024, [] { return models::roberta("large"); });
  expect_count(11683584, 768, [] { return models::albert("base"); });
  expect_count(17683968, 1024, [] { return models::albert("large"); });
  expect_count(58724864, 2048, [] { return models::albert("xlarge"); });
  expect_count(13483008, 256, [] { return models::electra("small"); });
  expect_count(108891648, 768, [] { return models::electra("base"); });
  expect_count(334092288, 1024, [] { return models::electra("large"); });
  expect_count(124439808, 50257, [] { return models::gpt2("small"); });
  expect_count(354823168, 50257, [] { return models::gpt2("medium"); });
  expect_count(774030080, 50257, [] { return models::gpt2("large"); });
  expect_count(1557611200, 50257, [] { return models::gpt2("xl"); });
}

TextEncoder tiny_encoder(bool shared) {
  return TextEncoder({.vocabulary = 20,
                      .positions = 8,
                      .dim = 12,
                      .embedding = shared ? 6 : 0,
                      .layers = 2,
                      .heads = 3,
                      .shared = shared,
                      .dropout = 0});
}
TextDecoder tiny_decoder() {
  return TextDecoder(
      {.vocabulary = 20, .positions = 8, .dim = 12, .layers = 2, .heads = 3, .dropout = 0});
}

float distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<float>(); }

// spec: EX9
TEST(TextEncoder, WhatTheMaskHidesDoesNotMatter) {
  const SeedScope seed(1);
  for (const bool shared : {false, true}) {
    const TextEncoder model = tiny_encoder(shared);
    const Tensor mask({{true, true, true, false, false}});
    const Tensor types({{0, 0, 1, 1, 1}});
    const Tensor a = model.pooled({Tensor({{1, 2, 3, 4, 5}}), types, mask});
    const Tensor b = model.pooled({Tensor({{1, 2, 3, 9, 9}}), types, mask});
    const Tensor c = model.pooled({Tensor({{1, 2, 4, 4, 5}}), types, mask});
    EXPECT_EQ(a.shape(), (Shape{1, 12}));
    EXPECT_EQ(distance(a, b), 0);
    EXPECT_GT(distance(a, c), 1e-4);
    EXPECT_GT(distance(a, model.pooled({Tensor({{1, 2, 3, 4, 5}}), {}, mask})), 1e-4);
  }
}

// spec: EX10
TEST(TextDecoder, SeesThePastOnlyAndContinues) {
  const SeedScope seed(2);
  const TextDecoder model = tiny_decoder();
  const Tensor ids({{3, 1, 4, 1, 5}}), other({{3, 1, 4, 7, 7}});
  const Tensor all = model(ids);
  EXPECT_EQ(all.shape(), (Shape{1, 5, 20}));
  const auto first = [](const Tensor& x) { return slice(x, {0, 0, 0}, {1, 3, 20}); };
  EXPECT_EQ(distance(first(all), first(model(other))), 0);
  std::vector<AttentionCache> caches;
  const Tensor head = model.extend(Tensor({{3, 1, 4}}), caches);
  const std::vector<AttentionCache> here = caches;  // a value: another continuation
  const Tensor next = model.extend(Tensor({{1}}), caches),
               last = model.extend(Tensor({{5}}), caches);
  EXPECT_LT(distance(concat({head, next, last}, {.axis = 1}), all), 1e-5F);
  caches = here;
  const Tensor elsewhere = model.extend(Tensor({{7, 7}}), caches);
  EXPECT_LT(distance(concat({head, elsewhere}, {.axis = 1}), model(other)), 1e-5F);
}

// spec: EX9 EX11
TEST(TextModels, GradientsAreThoseOfDifferences) {
  const SeedScope seed(3);
  const PhaseScope training(Phase::kTraining);
  const Tensor ids({{1, 2, 3, 4}, {5, 6, 7, 8}}), next({{2, 3, 4, 1}, {6, 7, 8, 5}});
  etude::tests::expect_gradient(
      tiny_decoder(), [&](const TextDecoder& m) { return softmax_cross_entropy(m(ids), next); });
  for (const bool shared : {false, true}) {
    etude::tests::expect_gradient(tiny_encoder(shared), [&](const TextEncoder& m) {
      return softmax_cross_entropy(m.pooled({.ids = ids}), Tensor({0, 1}));
    });
  }
}

TEST(TextModels, WrongUsesAreRefused) {
  const SeedScope seed(4);
  expect_message([] { static_cast<void>(models::bert("tiny")); },
                 "bert: there is no size tiny; published are base, large");
  expect_message([] { static_cast<void>(TextEncoder({.layers = 0})); }, "TextEncoder: layers is 0");
  const TextDecoder model = tiny_decoder();
  expect_message(
      [&] {
        static_cast<void>(model(etude::zeros({1, 9}, {.dtype = kInt32})));
      },
      "the text has 9 tokens, but there are 8 positions");
  expect_message(
      [&] {
        static_cast<void>(model(Tensor({1, 2})));
      },
      "ids have the shape [2]; needed is [n, time]");
  std::vector<AttentionCache> caches(3);
  expect_message([&] { static_cast<void>(model.extend(Tensor({{1}}), caches)); },
                 "3 caches for 2 layers; needed is one for each, or none at first");
  const TextEncoder plain({.vocabulary = 5, .dim = 4, .layers = 1, .heads = 1, .pooler = false});
  expect_message([&] { static_cast<void>(plain.pooled({.ids = Tensor({{1}})})); },
                 "this encoder was made without a pooler");
}

}  // namespace
}  // namespace etude::nn
