// SPDX-License-Identifier: Apache-2.0
#include "etude/data/loader.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/data/bucketed_loader.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude::data {
namespace {

using etude::tests::expect_error;

Samples numbered(int n) {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int i = 0; i < n; ++i) {
    inputs.push_back(static_cast<float>(i));
    inputs.push_back(static_cast<float>(-i));
    labels.push_back(i);
  }
  return {Tensor(inputs, {n, 2}), Tensor(labels)};
}

std::vector<int32_t> labels_of(Loader<Samples>& epochs, int64_t steps) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < steps; ++i) {
    const Samples batch = epochs.next();
    const auto labels = batch.labels.data<int32_t>();
    const auto inputs = batch.inputs.data<float>();
    for (std::size_t k = 0; k < labels.size(); ++k) {
      EXPECT_EQ(inputs[2 * k], static_cast<float>(labels[k]));
      EXPECT_EQ(inputs[2 * k + 1], static_cast<float>(-labels[k]));
    }
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

// spec: E1
TEST(Loader, EndlessAndShuffledAnewInEachEpoch) {
  Loader epochs(numbered(10), {.batch = 4, .seed = 3, .keep_remainder = true});
  EXPECT_EQ(epochs.steps_per_epoch(), 3);
  const auto first = labels_of(epochs, 3), second = labels_of(epochs, 3);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 10u);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 10u);
  EXPECT_NE(first, second);
  EXPECT_EQ(epochs.position(), (Position{2, 0}));
}

// spec: E1
TEST(Loader, DropsTheRemainderUnlessAsked) {
  Loader epochs(numbered(10), {.batch = 4});
  EXPECT_EQ(epochs.steps_per_epoch(), 2);
  const auto labels = labels_of(epochs, 2);
  EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), 8u);
  EXPECT_EQ(epochs.position(), (Position{1, 0}));
}

// spec: E4
TEST(Loader, SeedDecidesTheOrder) {
  Loader a(numbered(50), {.batch = 5, .seed = 7}), b(numbered(50), {.batch = 5, .seed = 7});
  Loader c(numbered(50), {.batch = 5, .seed = 8}),
      plain(numbered(50), {.batch = 5, .shuffle = false});
  const auto order = labels_of(a, 30);
  EXPECT_EQ(order, labels_of(b, 30));
  EXPECT_NE(order, labels_of(c, 30));
  const auto sorted = labels_of(plain, 10);
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

// A shuffle that favours places would show here: each of 6 values is first in a sixth of epochs.
// spec: E4
TEST(Loader, ShufflesEvenly) {
  internal::EpochOrder order(6, {.batch = 6, .seed = 1});
  std::array<int, 36> counts{};
  constexpr int kEpochs = 6000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto rows = order.rows({epoch, 0});
    for (std::size_t i = 0; i < 6; ++i) ++counts[i * 6 + static_cast<std::size_t>(rows[i])];
  }
  for (const int count : counts) EXPECT_NEAR(count, kEpochs / 6, 150);
}

// spec: K3.c
TEST(Loader, ResumesAtAnyPositionWithAndWithoutPrefetch) {
  for (const int prefetch : {0, 1, 3}) {
    const LoaderOptions options{
        .batch = 3, .seed = 5, .keep_remainder = true, .prefetch = prefetch};
    Loader whole(numbered(10), options);
    const auto expected = labels_of(whole, 9);
    for (int stop = 0; stop <= 8; ++stop) {
      Loader first(numbered(10), options), second(numbered(10), options);
      auto labels = labels_of(first, stop);
      second.seek(first.position());
      const auto rest = labels_of(second, 9 - stop);
      labels.insert(labels.end(), rest.begin(), rest.end());
      EXPECT_EQ(labels, expected) << "stopped after " << stop << ", prefetch " << prefetch;
    }
  }
}

// Workers with one seed share an epoch: no sample comes twice, and all have as many steps.
// spec: E4
TEST(Loader, RanksHaveBatchesOfTheirOwn) {
  const Tensor numbers = arange(50.0);
  std::vector<double> all;
  for (const int64_t rank : {0, 1, 2}) {
    Loader<Tensor> epochs(numbers, {.batch = 4, .seed = 3, .rank = rank, .ranks = 3});
    EXPECT_EQ(epochs.steps_per_epoch(), 4);
    while (epochs.position().epoch == 0) {
      for (const double x : epochs.next().to_vector<double>()) all.push_back(x);
    }
    // The batches of the three ranks, in turn, are the batches of a single rank.
    Loader<Tensor> alone(numbers, {.batch = 4, .seed = 3});
    alone.seek({0, 3 + rank});
    epochs.seek({0, 1});
    EXPECT_TRUE(same_value(alone.next(), epochs.next()));
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 48U);
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  const auto refused = [&](LoaderOptions options, std::string_view text) {
    expect_error([&] { Loader<Tensor>(numbers, options); }, ErrorCode::kInvalidArgument, {text});
  };
  refused({.batch = 4, .rank = 2, .ranks = 2}, "Loader: rank is 2 of 2 ranks, but must be from 0");
  refused({.batch = 20, .ranks = 3}, "Loader: 2 batches of 20 samples do not go round 3 ranks");
}

TEST(Loader, CopiesAndMovesGoOnByThemselves) {
  Loader a(numbered(20), {.batch = 2, .seed = 1});
  labels_of(a, 3);
  Loader copy = a;
  Loader moved = std::move(a);
  const auto expected = labels_of(copy, 12);
  EXPECT_EQ(labels_of(moved, 12), expected);
  copy = moved;
  EXPECT_EQ(labels_of(copy, 5), labels_of(moved, 5));
}

// Batches are made ahead of time from the samples as they were given.
// spec: V52.a
TEST(Loader, PrefetchHoldsWhatItReads) {
  Samples samples = numbered(20);
  Loader<Samples> epochs(samples, {.batch = 2, .seed = 1, .prefetch = 3});
  Loader<Samples> undisturbed = epochs;
  const auto expected = labels_of(undisturbed, 30);
  std::vector<int32_t> all;
  for (int i = 0; i < 30; ++i) {
    *static_cast<float*>(TensorAccess::writable(samples.inputs)) = 1000;
    *static_cast<int32_t*>(TensorAccess::writable(samples.labels)) = -1;
    const auto labels = labels_of(epochs, 1);  // compares inputs with labels
    all.insert(all.end(), labels.begin(), labels.end());
  }
  EXPECT_EQ(all, expected);
}

TEST(Loader, RefusesWhatCannotBeBatched) {
  const auto message = [](auto make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message([] {
              Loader e(numbered(3), {.batch = 4});
            }).find("3 samples do not fill a batch of 4"),
            std::string::npos);
  EXPECT_NE(message([] { Loader e(numbered(3), {.batch = 0}); }).find("batch is 0"),
            std::string::npos);
  Samples uneven = numbered(3);
  uneven.labels = numbered(4).labels;
  EXPECT_NE(message([&] { Loader e(uneven); }).find("'labels' has 4 samples"), std::string::npos);
  Loader fine(numbered(4), {.batch = 2});
  EXPECT_NE(message([&] { fine.seek({0, 2}); }).find("step 2 of epoch 0"), std::string::npos);
}

// spec: E2, E4
TEST(BucketedLoader, BatchSamplesOfLikeSizeTheLargestFirst) {
  std::vector<Tensor> samples;  // of 1 to 100 elements
  for (int i = 0; i < 100; ++i) {
    const int n = 1 + i * 37 % 100;
    samples.push_back(
        Tensor(std::vector<float>(static_cast<std::size_t>(n), static_cast<float>(n))));
  }
  const auto size = [](const Tensor& x) { return x.size(); };
  const LoaderOptions options{.batch = 8, .seed = 3, .keep_remainder = true};
  const auto padding = [&](BucketedLoader<Tensor>& epochs) {
    int64_t filled = 0;
    std::multiset<float> seen;
    for (int64_t step = 0; step < epochs.steps_per_epoch(); ++step) {
      const Tensor batch = epochs.next();
      EXPECT_EQ(batch.shape()[0], step == 12 ? 4 : 8);
      EXPECT_TRUE(step != 0 || batch.shape()[1] == 100);
      const auto values = batch.to_vector<float>();
      const auto width = static_cast<std::size_t>(batch.shape()[1]);
      for (std::size_t row = 0; row < values.size(); row += width) {
        const float n = values[row];
        seen.insert(n);
        for (std::size_t i = 0; i < width; ++i) {
          EXPECT_EQ(values[row + i], static_cast<float>(i) < n ? n : -1);
        }
        filled += static_cast<int64_t>(width) - static_cast<int64_t>(n);
      }
    }
    EXPECT_EQ(seen.size(), 100u);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 100u);
    return filled;
  };
  BucketedLoader epochs(samples, size, options, {.value = -1});
  BucketedLoader unsorted(samples, size, options, {.batches_per_sort = 1, .value = -1});
  EXPECT_EQ(epochs.steps_per_epoch(), 13);
  EXPECT_LT(3 * padding(epochs), padding(unsorted));
  const auto lengths = [&](BucketedLoader<Tensor>& from, int steps) {
    std::vector<int64_t> out;
    for (int i = 0; i < steps; ++i) out.push_back(from.next().shape()[1]);
    return out;
  };
  const auto second = lengths(epochs, 13), third = lengths(epochs, 13);
  EXPECT_NE(second, third);
  BucketedLoader again(samples, size, options, {.value = -1});
  again.seek({2, 0});
  EXPECT_EQ(lengths(again, 13), third);
  try {
    BucketedLoader bad(samples, size, options, {.batches_per_sort = 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("BucketedLoader: batches_per_sort is 0"),
              std::string::npos);
  }
}

// spec: T19
TEST(Prefetcher, KeepsTheOrderAndCarriesErrors) {
  std::atomic<int> made{0};
  internal::Prefetcher<int> ahead(
      [&made] {
        const int i = made++;
        if (i == 5) throw std::runtime_error("sample 5 is broken");
        return i;
      },
      2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ahead.take(), i);
  EXPECT_THROW(ahead.take(), std::runtime_error);
  EXPECT_THROW(ahead.take(), std::runtime_error);
  EXPECT_EQ(made, 6);
}

TEST(Prefetcher, EndsWhileValuesWait) {
  for (int i = 0; i < 50; ++i) {
    internal::Prefetcher<Tensor> ahead([] { return Tensor(1.5); }, 4);
    if (i % 2 == 0) {
      EXPECT_EQ(ahead.take().item<float>(), 1.5f);
    }
  }
}

// spec: E3
TEST(Rows, BatchesInOrderShareStorage) {
  const Samples all = numbered(7);
  std::vector<int64_t> sizes;
  std::vector<int32_t> labels;
  for (const Samples& batch : batches(all, 3)) {
    sizes.push_back(batch.inputs.shape()[0]);
    const auto part = batch.labels.to_vector<int32_t>();
    labels.insert(labels.end(), part.begin(), part.end());
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(labels, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}));
}

// spec: E3
TEST(Rows, CollatesStructsOfTensors) {
  const std::vector<Samples> singles = {{Tensor({1.0, 2.0}), Tensor(3)},
                                        {Tensor({4.0, 5.0}), Tensor(6)}};
  const Samples batch = collate(std::span<const Samples>(singles));
  EXPECT_TRUE(same_value(batch.inputs, Tensor({{1.0, 2.0}, {4.0, 5.0}})));
  EXPECT_TRUE(same_value(batch.labels, Tensor({3, 6})));
  const std::vector<Samples> uneven = {singles[0], {Tensor({1.0}), Tensor(1)}};
  try {
    collate(std::span<const Samples>(uneven));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sample 1 of a batch is float32[1]"),
              std::string::npos);
  }
  EXPECT_THROW(collate(std::span<const Samples>()), Error);
}

// spec: E3
TEST(Rows, TakeByIndexListChecksTheIndex) {
  const std::vector<int64_t> rows = {2, 0, 2}, outside = {3};
  EXPECT_TRUE(same_value(take_samples(numbered(3), rows).labels, Tensor({2, 0, 2})));
  EXPECT_THROW(take_samples(numbered(3), outside), Error);
}

}  // namespace
}  // namespace etude::data
