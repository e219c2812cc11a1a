// SPDX-License-Identifier: Apache-2.0
// Pipelines against sequences worked out by hand, and each of them resumed at every element.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "etude/data/dataset_sources.h"
#include "etude/ops/random.h"
#include "tests/expect_error.h"

namespace etude::data {
namespace {

using Numbers = std::vector<int64_t>;
using tests::expect_error;
using tests::message_of;

Dataset<Tensor> tensors(int64_t n) {
  Numbers values;
  for (int64_t i = 0; i < n; ++i) values.push_back(i);
  return from_tensors(Tensor(values));
}
// As a source that cannot skip and does not know its size.
Dataset<Tensor> generated(int64_t n) {
  return from_generator([n] {
    return [n, i = int64_t{0}]() mutable -> std::optional<Tensor> {
      if (i == n) return std::nullopt;
      return Tensor(Numbers{i++}, Shape{});
    };
  });
}
Tensor square(const Tensor& x) {
  const auto v = x.item<int64_t>();
  return Tensor(Numbers{v * v}, Shape{});
}
bool is_odd(const Tensor& x) { return x.item<int64_t>() % 2 == 1; }

std::string text_of(DatasetIterator<Tensor>& walk, int64_t most = 1000) {
  std::string text;
  for (; most > 0; --most) {
    const auto x = walk.next();
    if (!x.has_value()) break;
    std::string part;
    for (const auto v : x->to_vector<int64_t>()) {
      part += (part.empty() ? "" : " ") + std::to_string(v);
    }
    text += (text.empty() ? "" : " ") + (x->rank() == 0 ? part : "[" + part + "]");
  }
  return text;
}
std::string text_of(const Dataset<Tensor>& data, int64_t most = 1000) {
  auto walk = data.iterate();
  return text_of(walk, most);
}

using Case = std::pair<Dataset<Tensor>, std::string>;
std::vector<Case> cases(const Dataset<Tensor>& six) {
  const auto first = [](const auto& pair) { return std::get<0>(pair); };
  const auto pair = [](const auto& both) {
    return Tensor(Numbers{std::get<0>(both).template item<int64_t>(),
                          std::get<1>(both).template item<int64_t>()});
  };
  const auto last = [](const std::vector<Tensor>& window) { return window.back(); };
  const MapOptions parallel{.parallel = 4};
  return {
      {six, "0 1 2 3 4 5"},
      {six.map(square), "0 1 4 9 16 25"},
      {six.map(square, parallel).prefetch(2), "0 1 4 9 16 25"},
      {six.filter(is_odd), "1 3 5"},
      {six.take(4), "0 1 2 3"},
      {six.take(9), "0 1 2 3 4 5"},
      {six.skip(4), "4 5"},
      {six.skip(7), ""},
      {six.batch(2), "[0 1] [2 3] [4 5]"},
      {six.batch(4), "[0 1 2 3] [4 5]"},
      {six.batch(4, {.drop_remainder = true}), "[0 1 2 3]"},
      {six.batch(4).unbatch(), "0 1 2 3 4 5"},
      {six.shard(0, 4), "0 4"},
      {six.shard(1, 4), "1 5"},
      {six.shard(3, 4), "3"},
      {six.shard(2, 3).batch(1), "[2] [5]"},
      {six.take(2).concatenate(six.skip(4)), "0 1 4 5"},
      {six.take(2).repeat(3), "0 1 0 1 0 1"},
      {six.take(0).repeat(), ""},
      {six.repeat(0), ""},
      {six.take(2).repeat(2).repeat(2).map(square), "0 1 0 1 0 1 0 1"},
      {zip(six, six.map(square), six).map(pair), "[0 0] [1 1] [2 4] [3 9] [4 16] [5 25]"},
      {zip(six, six.take(2)).map(first), "0 1"},
      {six.enumerate().map([](const auto& e) { return Tensor(Numbers{std::get<0>(e)}, Shape{}); }),
       "0 1 2 3 4 5"},
      {six.cache(), "0 1 2 3 4 5"},
      {six.cache().repeat(2).batch(5), "[0 1 2 3 4] [5 0 1 2 3] [4 5]"},
      {six.take(3).flat_map([](const Tensor& x) { return tensors(x.item<int64_t>()); }), "0 0 1"},
      {six.take(4).interleave([](const Tensor& x) { return tensors(x.item<int64_t>()); }, 2),
       "0 0 0 1 1 2"},
      {six.shuffle(1), "0 1 2 3 4 5"},
      {six.window(4).map(last), "3 5"},
      {six.window(4, {.drop_remainder = true}).map(last), "3"},
  };
}

// spec: T19, E3, CK-13.a
TEST(Dataset, PipelinesGiveWhatTheySayAndAreResumedAnywhere) {
  for (const auto& six : {tensors(6), generated(6)}) {
    for (const auto& [data, expected] : cases(six)) {
      const std::string name = data.stage()->text();
      EXPECT_EQ(text_of(data), expected) << name;
      EXPECT_EQ(text_of(data), expected) << name << ", once more";
      auto whole = data.iterate();
      const std::string all = text_of(whole);
      const int64_t count = whole.position();
      EXPECT_EQ(data.size().value_or(count), count) << name;
      EXPECT_FALSE(whole.next().has_value()) << name;  // exhausted stays so
      for (int64_t stop = 0; stop <= count; ++stop) {
        auto first = data.iterate(), second = data.iterate();
        std::string text = text_of(first, stop);
        EXPECT_EQ(first.position(), stop) << name;
        second.seek(first.position());
        const std::string rest = text_of(second);
        text += (text.empty() || rest.empty() ? "" : " ") + rest;
        EXPECT_EQ(text, all) << name << ", stopped after " << stop;
        second.seek(stop);  // back
        EXPECT_EQ(text_of(second), rest) << name << ", back to " << stop;
      }
      expect_error([&] { whole.seek(count + 1); }, ErrorCode::kOutOfRange,
                   {"position " + std::to_string(count + 1), std::to_string(count) + " elements"});
    }
  }
}

// spec: T19, E4
TEST(Dataset, ShufflesDifferByEpochAndSeedAndAreResumed) {
  for (const auto& source : {tensors(20), generated(20)}) {
    for (const int64_t buffer : {2, 7, 20, 100}) {
      const auto data = source.shuffle(buffer, 5).repeat(3).batch(20);
      auto walk = data.iterate();
      std::set<std::vector<int64_t>> orders;
      for (int epoch = 0; epoch < 3; ++epoch) {
        auto order = walk.next()->to_vector<int64_t>();
        auto alone = source.shuffle(buffer, 5).epoch(epoch).batch(20).iterate();
        EXPECT_EQ(alone.next()->to_vector<int64_t>(), order);
        for (std::size_t i = 0; i < 20; ++i) {
          EXPECT_LE(order[i], static_cast<int64_t>(i) + buffer - 1);  // no further ahead
        }
        orders.insert(order);
        std::sort(order.begin(), order.end());
        EXPECT_EQ(std::unique(order.begin(), order.end()) - order.begin(), 20);
      }
      EXPECT_EQ(orders.size(), 3u) << buffer;
      EXPECT_NE(text_of(source.shuffle(buffer, 5)), text_of(source.shuffle(buffer, 6)));
      const auto flat = source.shuffle(buffer, 5).map(square, {.parallel = 3}).repeat(3);
      const std::string all = text_of(flat);
      for (int64_t stop = 0; stop <= 60; ++stop) {
        auto first = flat.iterate(), second = flat.iterate();
        const std::string begin = text_of(first, stop);
        second.seek(stop);
        const std::string rest = text_of(second);
        EXPECT_EQ(begin + (stop == 0 || stop == 60 ? "" : " ") + rest, all)
            << "buffer " << buffer << ", stopped after " << stop;
      }
    }
  }
}

// Each of 6 elements comes first in a sixth of the epochs.
// spec: E4
TEST(Dataset, ShufflesEvenly) {
  std::array<int, 6> counts{};
  for (const Tensor& x : tensors(6).shuffle(6, 2).repeat(3000).shard(0, 6)) {
    ++counts[static_cast<std::size_t>(x.item<int64_t>())];
  }
  for (const int count : counts) EXPECT_NEAR(count, 500, 100);
}

// Later elements are ready first; the order stays, and several threads work where there are.
// spec: T19
TEST(Dataset, ParallelMapsKeepTheOrderAndDrawAlike) {
  const auto noisy = [](const Tensor& x) {
    const auto v = x.item<int64_t>();
    std::this_thread::sleep_for(std::chrono::microseconds(100 * ((8 - v % 8) % 8)));
    const double draw = random::uniform({1}).item<double>();
    return Tensor(Numbers{v, static_cast<int64_t>(draw * 1e6)});
  };
  const std::string one = text_of(tensors(40).map(noisy, {.seed = 3}).epoch(2));
  for (const int64_t parallel : {2, 7, 64}) {
    const auto data = tensors(40).map(noisy, {.parallel = parallel, .seed = 3}).epoch(2);
    EXPECT_EQ(text_of(data), one) << parallel;
    EXPECT_EQ(text_of(data.prefetch(3)), one) << parallel;
    auto walk = data.iterate();
    walk.seek(17);
    const std::string rest = text_of(walk);
    EXPECT_EQ(one.substr(one.size() - rest.size()), rest);
  }
  EXPECT_NE(text_of(tensors(40).map(noisy, {.seed = 3}).epoch(1)), one);
  EXPECT_NE(text_of(tensors(40).map(noisy, {.seed = 4}).epoch(2)), one);
  const PhaseScope training(Phase::kTraining);
  const auto phase = [](const Tensor&) { return Tensor(Numbers{is_training()}, Shape{}); };
  EXPECT_EQ(text_of(tensors(3).map(phase, {.parallel = 2}).prefetch(1)), "1 1 1");
}

Tensor fails_at_odd(const Tensor& x) {
  const auto v = x.item<int64_t>();
  if (v == 3) throw std::runtime_error("three is broken");
  if (v == 5) throw Error(ErrorCode::kDataLoss, "five is torn");
  return x;
}

// spec: T19
TEST(Dataset, ErrorsNameTheElementAndComeInTheirTurn) {
  for (const int64_t parallel : {1, 4, 16}) {
    for (const int64_t ahead : {0, 2}) {
      const auto data = tensors(8).map(fails_at_odd, {.parallel = parallel}).prefetch(ahead);
      auto walk = data.iterate();
      EXPECT_EQ(text_of(walk, 3), "0 1 2");
      for (int again = 0; again < 2; ++again) {
        expect_error([&] { walk.next(); }, ErrorCode::kInvalidArgument,
                     {"map: element 3: three is broken", "dataset_test.cc"});
      }
      walk.seek(4);  // goes past it
      EXPECT_EQ(text_of(walk, 1), "4");
      expect_error([&] { walk.next(); }, ErrorCode::kDataLoss, {"map: element 5: five is torn"});
    }
  }
  try {
    text_of(tensors(8).map(fails_at_odd));
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
  expect_error(
      [] {
        text_of(
            tensors(8).filter([](const Tensor& x) -> bool { return fails_at_odd(x).has_value(); }));
      },
      ErrorCode::kInvalidArgument, {"filter: element 3: three is broken"});
  expect_error(
      [] {
        text_of(from_list<Tensor>({Tensor(1), Tensor({1, 2})}).batch(2));
      },
      ErrorCode::kInvalidArgument, {"batch: element 0: ", "sample 1 of a batch is int32[2]"});
}

// spec: T19
TEST(Dataset, BadElementsAreSkippedAndCountedIfAsked) {
  for (const int64_t parallel : {1, 3}) {
    const auto data =
        tensors(8).map(fails_at_odd, {.parallel = parallel, .on_error = OnError::kSkip});
    EXPECT_EQ(data.size(), std::nullopt);
    auto walk = data.batch(4).iterate();
    EXPECT_EQ(text_of(walk), "[0 1 2 4] [6 7]");
    EXPECT_EQ(walk.skipped().count, 2);
    EXPECT_EQ(walk.skipped().first, (std::vector<std::string>{"map: element 3: three is broken",
                                                              "map: element 5: five is torn"}));
    walk.seek(1);
    EXPECT_EQ(text_of(walk), "[6 7]");
    EXPECT_EQ(walk.skipped().count, 2);
  }
  const auto cancelled =
      tensors(2).map([](const Tensor&) -> Tensor { throw Error(ErrorCode::kCancelled, "Ctrl-C"); },
                     {.on_error = OnError::kSkip});
  expect_error([&] { text_of(cancelled); }, ErrorCode::kCancelled, {"Ctrl-C"});
}

// A resumed walk makes only the elements in the shuffle's buffer again.
TEST(Dataset, ResumingMakesNoElementAgain) {
  std::atomic<int> made{0};
  const auto data = tensors(1000)
                        .map([&made](const Tensor& x) {
                          ++made;
                          return x;
                        })
                        .shuffle(10, 1)
                        .batch(10);
  auto walk = data.repeat().iterate();
  walk.seek(1050);
  EXPECT_LE(made, 10);
  walk.next();
  EXPECT_LE(made, 21);
}

Samples sized(int64_t n) {
  return {Tensor(std::vector<float>(static_cast<std::size_t>(2 * n)), Shape{n, 2}),
          Tensor(static_cast<int>(n))};
}

// spec: T19, E3
TEST(Dataset, PaddedBatchesFillUpToTheLargest) {
  const auto row = [](Numbers values) { return Tensor(values); };
  const auto lists = from_list<Tensor>({row({1}), row({2, 3, 4}), row({}), row({5, 6})});
  auto walk = lists.padded_batch(4, {.value = -1}).iterate();
  const Tensor batch = *walk.next();
  EXPECT_TRUE(same_value(batch, Tensor(Numbers{1, -1, -1, 2, 3, 4, -1, -1, -1, 5, 6, -1}, {4, 3})));
  const auto planes = from_list<Tensor>({Tensor(std::vector<float>{1, 2, 3, 4}, {2, 2, 1}),
                                         Tensor(std::vector<float>{5, 6, 7}, {1, 3, 1})});
  const Tensor both = *planes.padded_batch(2).iterate().next();
  EXPECT_TRUE(same_value(
      both, Tensor(std::vector<float>{1, 2, 0, 3, 4, 0, 5, 6, 7, 0, 0, 0}, {2, 2, 3, 1})));
  EXPECT_NE(message_of([&] {
              *lists.padded_batch(4, {.value = 0.5}).iterate().next();
            }).find("cannot be filled up with 0.5"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              from_list<Tensor>({Tensor(1), Tensor({1.0})}).padded_batch(2).iterate().next();
            }).find("sample 1 of a padded batch is float32[1], but sample 0 is int32"),
            std::string::npos);
}

// spec: E2
TEST(Dataset, BucketsBatchWhatIsOfLikeSize) {
  std::vector<Samples> samples;
  for (const int64_t n : {3, 9, 1, 4, 20, 2, 7, 8, 5}) samples.push_back(sized(n));
  const auto size = [](const Samples& s) { return s.inputs.shape()[0]; };
  const auto data = from_list(samples).buckets(size, {4, 8}, {3, 2, 2});
  std::string text;
  for (const Samples& batch : data) {
    text += batch.inputs.shape().to_string() + " of";
    for (const int n : batch.labels.to_vector<int>()) text += " " + std::to_string(n);
    text += "; ";
  }
  EXPECT_EQ(text,
            "[3,4,2] of 3 1 4; [2,20,2] of 9 20; [2,8,2] of 7 8; [1,5,2] of 5; [1,2,2] of 2; ");
  expect_error(
      [&] {
        from_list(samples).buckets(size, {8, 4}, {1, 1, 1});
      },
      ErrorCode::kInvalidArgument, {"Dataset::buckets: the bounds 8, 4"});
  expect_error([&] { from_list(samples).buckets(size, {8}, {1}); }, ErrorCode::kInvalidArgument,
               {"1 bounds make 2 buckets, but 1 batch sizes"});
}

// spec: E1, K3.c
TEST(DatasetLoader, AreEndlessAndSought) {
  for (const auto& source : {tensors(7), generated(7)}) {
    const auto data = source.shuffle(7, 1).batch(3).prefetch(1);
    DatasetLoader epochs(data);
    EXPECT_EQ(epochs.steps_per_epoch(), 3);
    std::vector<std::vector<int64_t>> all;
    for (int i = 0; i < 12; ++i) all.push_back(epochs.next().to_vector<int64_t>());
    EXPECT_EQ(epochs.position(), (Position{4, 0}));
    EXPECT_NE(all[0], all[3]);
    for (int64_t i = 0; i < 12; ++i) {
      DatasetLoader again(data);
      again.seek({i / 3, i % 3});
      for (int64_t k = i; k < 12; ++k) {
        EXPECT_EQ(again.next().to_vector<int64_t>(), all[static_cast<std::size_t>(k)]);
      }
    }
    expect_error([&] { epochs.seek({0, 4}); }, ErrorCode::kOutOfRange, {"position 4"});
  }
  expect_error([] { DatasetLoader e(tensors(7).repeat()); }, ErrorCode::kInvalidArgument,
               {"has no end, so it makes no epochs"});
  expect_error([] { DatasetLoader e(tensors(0)); }, ErrorCode::kInvalidArgument,
               {"tensors(0) has no elements"});
}

TEST(Dataset, RefusesNumbersOutside) {
  const auto data = tensors(3);
  const std::vector<std::pair<std::function<void()>, std::string>> rows = {
      {[&] { data.batch(0); }, "Dataset::batch: n is 0, but must be at least 1"},
      {[&] { data.shuffle(0); }, "Dataset::shuffle: buffer is 0"},
      {[&] { data.repeat(-1); }, "Dataset::repeat: times is -1"},
      {[&] { data.take(-1); }, "Dataset::take: n is -1"},
      {[&] { data.map(square, {.parallel = 0}); }, "Dataset::map: parallel is 0"},
      {[&] { data.shard(2, 2); }, "Dataset::shard: shard 2 of 2 was requested; ranks are 0 to 1"},
      {[&] { data.iterate().seek(-1); }, "position -1 was requested; the first is 0"},
  };
  for (const auto& [call, text] : rows) {
    EXPECT_NE(message_of(call).find(text), std::string::npos) << message_of(call);
  }
}

}  // namespace
}  // namespace etude::data
