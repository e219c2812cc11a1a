// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/base/philox.h"
#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using Ints = std::vector<int64_t>;

// spec: C1, C2
TEST(Ambient, ScopesRestoreAlsoOnExceptions) {
  EXPECT_FALSE(is_training());
  try {
    const PhaseScope training(Phase::kTraining);
    EXPECT_TRUE(is_training());
    {
      const PhaseScope inner(Phase::kInference);
      EXPECT_FALSE(is_training());
    }
    EXPECT_TRUE(is_training());
    bool other = true;
    std::thread([&] { other = is_training(); }).join();
    EXPECT_FALSE(other);
    throw Error(ErrorCode::kInternal, "leave");
  } catch (const Error&) {
  }
  EXPECT_FALSE(is_training());

  set_seed(3);
  const Tensor first = random::uniform({4});
  set_seed(3);
  try {
    const SeedScope seeded(11);
    random::uniform({4});
    throw Error(ErrorCode::kInternal, "leave");
  } catch (const Error&) {
  }
  EXPECT_TRUE(same_value(random::uniform({4}), first));
}

// spec: IM-11.a, IM-11.c, C3.a
TEST(Random, EachCallIsNewAndASeedRepeats) {
  set_seed(7);
  const Tensor a = random::normal({100}), b = random::normal({100});
  EXPECT_FALSE(same_value(a, b));
  set_seed(7);
  EXPECT_TRUE(same_value(random::normal({100}), a));
  EXPECT_TRUE(same_value(random::normal({100}), b));
  Generator generator(7), copy = generator;
  EXPECT_TRUE(same_value(random::normal({100}, {.key = generator.next_key()}), a));
  EXPECT_EQ(generator.position, 1u);
  EXPECT_TRUE(same_value(random::normal({100}, {.key = copy.next_key()}), a));
  Tensor elsewhere;
  std::thread([&] { elsewhere = random::normal({100}); }).join();
  EXPECT_FALSE(same_value(elsewhere, a));
}

// The words of Philox by element index, which other devices must draw as well.
// spec: C3.a, T2.a
TEST(Random, KnownAnswers) {
  const Tensor key = random::key(42);
  const PhiloxKey philox_key{42, 0};
  const std::vector<float> u = random::uniform({1001}, {.key = key}).to_vector<float>();
  const std::vector<double> d =
      random::uniform({11}, {.dtype = kFloat64, .key = key}).to_vector<double>();
  for (std::size_t i = 0; i < u.size(); ++i)
    EXPECT_EQ(u[i], uniform_float(random_bits(philox_key, i)));
  for (std::size_t i = 0; i < d.size(); ++i) {
    EXPECT_EQ(d[i],
              uniform_double(random_bits(philox_key, 2 * i), random_bits(philox_key, 2 * i + 1)));
  }
  EXPECT_TRUE(same_value(random::fold_in(key, 1), random::split(key).at(1)));
  EXPECT_FALSE(same_value(random::fold_in(key, 1), random::fold_in(key, 2)));
  EXPECT_EQ(random::split(key, 3).shape(), Shape({3, 2}));
}

// A key for each number does not depend on the form of the numbers: host numbers, tensors of any
// integer dtype and shape, examples of a batch.
// spec: T2.a
TEST(Random, KeysFollowFromKeysAndNumbers) {
  const Tensor key = random::key(42);
  const auto words = [](PhiloxKey k) {
    const uint64_t both[] = {k.seed, k.stream};
    return Tensor(std::span<const uint64_t>(both), {2});
  };
  for (const uint64_t n : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_TRUE(same_value(random::fold_in(key, n), words(fold_in(PhiloxKey{42, 0}, n)))) << n;
  }
  const Tensor numbers = tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = kInt32});
  const Tensor keys = random::fold_in(key, numbers);
  ASSERT_EQ(keys.shape(), Shape({2, 3, 2}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_TRUE(same_value(keys.at(i, j), random::fold_in(key, 1 + 3 * i + j)));
  }
  const auto one = [&](const Tensor& n) { return random::fold_in(key, n); };
  EXPECT_TRUE(same_value(vmap(one)(numbers), keys));
  const auto of_key = [](const Tensor& k) { return random::fold_in(k, 5); };
  EXPECT_TRUE(same_value(vmap(of_key)(random::split(key, 2)).at(1),
                         random::fold_in(random::fold_in(key, 1), 5)));
  tests::expect_error([&] { random::fold_in(key, 1.5); }, ErrorCode::kInvalidArgument,
                      {"random.fold_in: ", "1.5"});
  tests::expect_error([&] { random::split(key, -1); }, ErrorCode::kInvalidArgument,
                      {"random.split: n is -1, but must be 0 or more"});
}

// Each of several keys has the same draws as alone, in calls of more and of fewer elements than the
// part of a thread.
// spec: T2.a
TEST(Random, KeysForTheFirstAxes) {
  const auto all = [](const Ints& first, int64_t n, const Tensor& key) {
    Ints shape = first;
    shape.push_back(n);
    return std::vector<Tensor>{
        random::uniform(shape, {.dtype = kFloat64, .key = key}),
        random::normal(shape, {.key = key}),
        random::truncated_normal(shape, {.dtype = kBFloat16, .key = key}),
        random::randint(shape, -5, 1000, {.key = key}),
        random::fold_in(
            key,
            broadcast_to(arange(0, {.stop = static_cast<double>(n), .dtype = kInt64}), shape))};
  };
  for (const auto& [keys, n] : {std::pair<int64_t, int64_t>{3, 20001}, {700, 33}, {2, 1}, {4, 0}}) {
    const Tensor key = random::split(random::key(5), keys);
    const std::vector<Tensor> got = all({keys}, n, key);
    for (const int64_t k : {int64_t{0}, keys / 2, keys - 1}) {
      const std::vector<Tensor> want = all({}, n, key.at(k));
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(same_value(got[i].at(k), want[i])) << i << " " << k << " of " << keys;
      }
    }
  }
  const Tensor table = reshape(random::split(random::key(6), 6), {2, 3, 2});
  const Tensor one = random::uniform({2, 3}, {.key = table});
  EXPECT_TRUE(same_value(one.at(1, 2), random::uniform({}, {.key = table.at(1, 2)})));
  tests::expect_error(
      [&] {
        random::uniform({3, 2}, {.key = table});
      },
      ErrorCode::kInvalidArgument, {"operand 'key' has shape [2,3,2]", "the first axes of [3,2]"});
  tests::expect_error([&] { random::split(table); }, ErrorCode::kInvalidArgument,
                      {"random.split: key has shape [2,3,2], but one key, uint64[2], is split"});
}

// spec: T2.b
TEST(Random, HasTheSameBitsForAnyNumberOfThreads) {
  const Tensor key = random::key(5);
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    std::vector<std::vector<Tensor>> results;
    for (const int threads : {1, 2, 7}) {
      set_thread_count(threads);
      results.push_back({random::uniform({70001}, {.dtype = dtype, .key = key}),
                         random::normal({70001}, {.dtype = dtype, .key = key}),
                         random::truncated_normal({70001}, {.dtype = dtype, .key = key}),
                         random::randint({70001}, -5, 1000, {.key = key})});
    }
    set_thread_count(0);
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(same_value(results[0][i], results[1][i])) << i;
      EXPECT_TRUE(same_value(results[0][i], results[2][i])) << i;
    }
  }
}

struct Moments {
  double mean, deviation, min, max;
};
Moments moments_of(const Tensor& x) {
  const Tensor d = astype(x, kFloat64);
  return {mean(d).item<double>(), etude::std(d).item<double>(), min(d).item<double>(),
          max(d).item<double>()};
}

// Bounds are five standard errors of a million draws.
// spec: T2.a
TEST(Random, Distributions) {
  const int64_t n = 1000000;
  set_seed(1);
  for (const DType dtype : {kFloat32, kFloat64, kFloat16}) {
    SCOPED_TRACE(name(dtype));
    const Moments u = moments_of(random::uniform({n}, {.dtype = dtype}));
    EXPECT_NEAR(u.mean, .5, .0015 + (dtype == kFloat16 ? .0003 : 0));
    EXPECT_NEAR(u.deviation, std::sqrt(1 / 12.0), .001);
    EXPECT_GE(u.min, 0);
    EXPECT_LT(u.max, 1);
    const Moments g = moments_of(random::normal({n}, {.dtype = dtype}));
    EXPECT_NEAR(g.mean, 0, .005);
    EXPECT_NEAR(g.deviation, 1, .004);
    EXPECT_GT(g.max, 4.2);
    const Moments t = moments_of(random::truncated_normal({n}, {.dtype = dtype}));
    EXPECT_NEAR(t.mean, 0, .005);
    EXPECT_NEAR(t.deviation, .8796257, .003);
    EXPECT_LE(t.max, 2);
    EXPECT_GE(t.min, -2);
  }
  const Moments moved = moments_of(random::uniform({n}, {.low = -3.0, .high = 5.0}));
  EXPECT_NEAR(moved.mean, 1, .012);
  EXPECT_GE(moved.min, -3);
  EXPECT_LE(moved.max, 5);
  const Moments whole = moments_of(random::randint({n}, -3, 4));
  EXPECT_NEAR(whole.mean, 0, .01);
  EXPECT_NEAR(whole.deviation, 2, .01);
  EXPECT_EQ(whole.min, -3);
  EXPECT_EQ(whole.max, 3);
  EXPECT_NEAR(mean(astype(random::bernoulli(0.3, {n}), kFloat32)).item<float>(), .3, .0025);
}

// Counts of cells against their expectation: chi-square far below its limit.
// spec: T2.a
TEST(Random, UniformFillsItsCells) {
  const int cells = 256, n = 1 << 20;
  std::vector<double> counts(cells);
  for (const float u : random::uniform({n}, {.key = random::key(9)}).to_vector<float>()) {
    counts[static_cast<std::size_t>(u * cells)] += 1;
  }
  double chi = 0;
  for (const double count : counts) chi += (count - n / cells) * (count - n / cells) / (n / cells);
  EXPECT_LT(chi, 255 + 5 * std::sqrt(2 * 255.0));
  EXPECT_GT(chi, 255 - 5 * std::sqrt(2 * 255.0));
}

// spec: T2.a
TEST(Random, Permutations) {
  Ints order = random::permutation(1000).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(random::permutation(0).size(), 0);
}

// spec: T2.c
TEST(Random, DerivativesByReparameterisation) {
  const Tensor key = random::key(2), u = random::uniform({3}, {.key = key}),
               g = random::normal({3}, {.key = key});
  const Tensor seed{1.0, 10.0, 100.0};
  const auto low = [&](const Tensor& x) {
    return random::uniform({3}, {.low = x, .high = Tensor(2.0), .key = key});
  };
  expect_near(gradient_of(low, Tensor(0.5), seed), {sum((1 - u) * seed).item<double>()}, 1e-4);
  const auto mean = [&](const Tensor& x) { return random::normal({3}, {.mean = x, .key = key}); };
  expect_near(gradient_of(mean, Tensor(0.5), seed), {111}, 1e-4);
  const auto deviation = [&](const Tensor& x) {
    return random::normal({3}, {.stddev = x, .key = key});
  };
  expect_near(gradient_of(deviation, Tensor{1.0, 1.0, 1.0}, seed), (g * seed).to_vector<double>(),
              1e-4);
}

// Ranges of few numbers, in which many draws round up to the end, and wide ranges.
// spec: T2.a
TEST(Random, UniformNumbersLieBelowTheEnd) {
  const std::vector<std::pair<double, double>> ranges = {{1, 2},       {-1, 1},  {0.125, 0.375},
                                                         {1000, 1001}, {-3, -2}, {-60000, 60000}};
  const auto count = [](const Tensor& bools) { return count_nonzero(bools).item<int64_t>(); };
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const auto& [low, high] : ranges) {
      const Tensor from = astype(Tensor(low), dtype), to = astype(Tensor(high), dtype);
      if (same_value(from, to)) continue;  // bfloat16 has 1000, and 1004 after it
      const Tensor u = random::uniform(
          {100000}, {.low = from, .high = to, .dtype = dtype, .key = random::key(7)});
      EXPECT_EQ(count(u < from) + count(u >= to), 0) << name(dtype) << " from " << low;
    }
  }
  for (const auto& [dtype, end] : {std::pair(kFloat32, 3e38), std::pair(kFloat64, 1e308)}) {
    const Tensor high = astype(Tensor(std::vector<double>{end}, Shape{}), dtype);
    const Tensor u = random::uniform({1000}, {.low = -high, .high = high, .dtype = dtype});
    EXPECT_EQ(count(isfinite(u)), 1000);
    EXPECT_NEAR(mean(u / high).item<double>(), 0, 0.1);  // five standard deviations
  }
  EXPECT_EQ(random::uniform({2}, {.low = 5.0, .high = 5.0}).to_vector<double>(),
            (std::vector<double>{5, 5}));
}

// spec: T2.d
TEST(Random, CategoricalNeedsAClass) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Tensor& logits : {Tensor({0.0, std::nan(""), 1.0}), Tensor({-inf, -inf})}) {
    const std::string message = message_of([&] { random::categorical(logits, {3}); });
    EXPECT_NE(message.find("logits hold NaN, or rows of -infinity alone"), std::string::npos)
        << message;
    EXPECT_NE(message.find("random_test.cc"), std::string::npos) << message;
  }
  EXPECT_EQ(random::categorical(Tensor({-inf, 0.0, -inf})).item<int>(), 1);
  EXPECT_EQ(random::categorical(Tensor({0.0, inf})).item<int>(), 1);
}

// spec: T2.d
TEST(Random, SaysWhatIsWrong) {
  const auto expect = [](const auto& f, const char* fragment) {
    const std::string message = message_of(f);
    EXPECT_NE(message.find(fragment), std::string::npos) << message;
    EXPECT_NE(message.find("random_test.cc"), std::string::npos) << message;
  };
  expect([] { random::uniform({3}, {.low = 2.0, .high = 1.0}); }, "low is 2 and high is 1");
  expect([] { random::normal({3}, {.stddev = -1.0}); }, "stddev is -1");
  expect([] { random::randint({3}, 3, 3); }, "low must be less than high");
  expect([] { random::randint({3}, 0, 300, {.dtype = kInt8}); }, "int8 does not hold");
  expect([] { random::bernoulli(1.5); }, "p is 1.5");
  expect([] { random::permutation(-1); }, "n is -1");
  expect([] { random::uniform({-1}); }, "has a negative size");
  expect([] { random::normal({2}, {.mean = Tensor{1.0, 2.0, 3.0}}); }, "do not broadcast");
}

// How often each of the values 0 .. n - 1 is in x.
std::vector<double> shares(const Tensor& x, int n) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (const int64_t i : x.to_vector<int64_t>()) {
    out.at(static_cast<std::size_t>(i)) += 1.0 / static_cast<double>(x.size());
  }
  return out;
}

// spec: T2.a
TEST(Random, CategoricalDrawsBySoftmax) {
  const Tensor logits(std::vector<float>{std::log(0.1f), std::log(0.2f), std::log(0.7f)});
  const Tensor x = random::categorical(logits, {20000}, {.key = random::key(5)});
  EXPECT_EQ(x.dtype(), kInt32);
  const std::vector<double> seen = shares(x, 3);  // five standard deviations are 0.016
  EXPECT_NEAR(seen[0], 0.1, 0.016);
  EXPECT_NEAR(seen[1], 0.2, 0.016);
  EXPECT_NEAR(seen[2], 0.7, 0.016);
  EXPECT_TRUE(same_value(x, random::categorical(logits, {20000}, {.key = random::key(5)})));
  const Tensor certain({{0.0, -1000.0}, {-1000.0, 0.0}});
  EXPECT_EQ(random::categorical(certain).to_vector<int>(), (std::vector<int>{0, 1}));
  EXPECT_EQ(random::categorical(certain, {3, 2}, {.dtype = kInt64}).to_vector<int>(),
            (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_THROW(random::categorical(Tensor(1.0)), Error);
  EXPECT_THROW(random::categorical(certain, {3}), Error);
}

// spec: T2.a
TEST(Random, ShufflesAlongAnAxis) {
  const Tensor x = reshape(arange(20), {4, 5});
  const Tensor rows = random::shuffle(x, {.key = random::key(1)});
  const Tensor columns = random::shuffle(x, {.axis = -1, .key = random::key(1)});
  EXPECT_FALSE(same_value(rows, x));
  EXPECT_TRUE(same_value(sort(rows, {.axis = 0}), x));
  EXPECT_TRUE(same_value(sort(columns), x));
  EXPECT_THROW(random::shuffle(Tensor(1)), Error);
  EXPECT_THROW(random::shuffle(x, {.axis = 2}), Error);
}

// spec: T2.a, T2.d
TEST(Random, ChoosesParts) {
  const Tensor x = arange(6), p({0.0, 0.5, 0.0, 0.25, 0.25, 0.0});
  const std::vector<double> alike = shares(random::choice(x, {12000}, {.key = random::key(2)}), 6);
  for (const double share : alike) EXPECT_NEAR(share, 1.0 / 6, 0.018);
  const auto weighted = shares(random::choice(x, {100, 100}, {.p = p, .key = random::key(2)}), 6);
  EXPECT_EQ(weighted[0] + weighted[2] + weighted[5], 0);
  EXPECT_NEAR(weighted[1], 0.5, 0.025);
  const Tensor all = random::choice(x, {2, 3}, {.replace = false, .key = random::key(3)});
  EXPECT_EQ(all.shape(), (Shape{2, 3}));
  EXPECT_TRUE(same_value(sort(reshape(all, {6})), x));
  const Tensor some = random::choice(x, 3, {.replace = false, .p = p, .key = random::key(3)});
  EXPECT_EQ(sort(some).to_vector<int>(), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(random::choice(reshape(x, {3, 2}), {5}).shape(), (Shape{5, 2}));
  const auto error_of = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto choose = [&](const IntList& shape, const random::ChoiceOptions& options) {
    return error_of([&] { random::choice(x, shape, options); });
  };
  EXPECT_EQ(choose({7}, {.replace = false}).find("random.choice: 7 draws without replacement"), 0U);
  EXPECT_NE(choose({4}, {.replace = false, .p = p}).find("3 parts, but 4"), std::string::npos);
  EXPECT_NE(choose({4}, {.p = Tensor({0.5})}).find("6 parts"), std::string::npos);
  EXPECT_NE(choose({4}, {.p = p * -1.0}).find("[0, 1]"), std::string::npos);
  EXPECT_NE(choose({7}, {.replace = false}).find("random_test.cc"), std::string::npos);
}

}  // namespace
}  // namespace etude
