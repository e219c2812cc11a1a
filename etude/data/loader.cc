// SPDX-License-Identifier: Apache-2.0
#include "etude/data/loader.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "etude/base/check.h"
#include "etude/base/philox.h"

namespace etude::data::internal {
namespace {

// Fisher and Yates; each epoch has a stream of its own. The high product of a 64-bit word and n has
// a bias below n / 2^64.
void shuffle(std::vector<int64_t>& order, uint64_t seed, int64_t epoch) {
  const PhiloxKey key{seed, static_cast<uint64_t>(epoch)};
  for (std::size_t n = order.size(); n > 1; --n) {
    const auto words = philox(key, n);
    const uint64_t word = uint64_t{words[0]} << 32 | words[1];
    const auto pick = static_cast<std::size_t>((static_cast<unsigned __int128>(word) * n) >> 64);
    std::swap(order[n - 1], order[pick]);
  }
}

}  // namespace

EpochOrder::EpochOrder(int64_t samples, const LoaderOptions& options)
    : samples_(samples), steps_(0), options_(options) {
  const auto& [rank, ranks] = std::tie(options.rank, options.ranks);
  ETUDE_REQUIRE(ranks >= 1 && rank >= 0 && rank < ranks,
                "rank is {} of {} ranks, but must be from 0 to one less than their number", rank,
                ranks);
  steps_ = samples / options.batch;
  if (options.keep_remainder && samples % options.batch != 0) ++steps_;
  ETUDE_REQUIRE(steps_ > 0,
                "{} samples do not fill a batch of {}. Take a smaller batch, or keep_remainder",
                samples, options.batch);
  ETUDE_REQUIRE(steps_ >= ranks, "{} batches of {} samples do not go round {} ranks", steps_,
                options.batch, ranks);
  steps_ /= ranks;
}

EpochOrder::EpochOrder(std::vector<int64_t> sizes, int64_t batches_per_sort,
                       const LoaderOptions& options)
    : EpochOrder(static_cast<int64_t>(sizes.size()), options) {
  sizes_ = std::move(sizes);
  batches_per_sort_ = batches_per_sort;
}

void EpochOrder::group_by_size(int64_t epoch) {
  const auto size_of = [&](int64_t sample) { return sizes_[static_cast<std::size_t>(sample)]; };
  const auto larger = [&](int64_t a, int64_t b) { return size_of(a) > size_of(b); };
  const int64_t chunk = options_.batch * batches_per_sort_;
  for (int64_t begin = 0; begin < samples_; begin += chunk) {
    std::stable_sort(order_.begin() + begin, order_.begin() + std::min(samples_, begin + chunk),
                     larger);
  }
  // Whole batches change places; each begins with its largest sample.
  std::vector<int64_t> firsts(static_cast<std::size_t>(samples_ / options_.batch));
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    firsts[i] = static_cast<int64_t>(i) * options_.batch;
  }
  if (options_.shuffle) shuffle(firsts, ~options_.seed, epoch);
  const auto largest = std::min_element(firsts.begin(), firsts.end(), [&](int64_t a, int64_t b) {
    return larger(order_[static_cast<std::size_t>(a)], order_[static_cast<std::size_t>(b)]);
  });
  if (largest != firsts.end()) std::iter_swap(firsts.begin(), largest);
  std::vector<int64_t> moved;
  moved.reserve(order_.size());
  for (const int64_t first : firsts) {
    moved.insert(moved.end(), order_.begin() + first, order_.begin() + first + options_.batch);
  }
  moved.insert(moved.end(), order_.begin() + static_cast<int64_t>(moved.size()), order_.end());
  order_ = std::move(moved);
}

std::span<const int64_t> EpochOrder::rows(Position at) {
  ETUDE_REQUIRE_CODE(kOutOfRange, at.epoch >= 0 && at.step >= 0 && at.step < steps_,
                     "step {} of epoch {} was requested; an epoch has steps 0 to {}", at.step,
                     at.epoch, steps_ - 1);
  if (shuffled_epoch_ != at.epoch) {
    shuffled_epoch_ = -1;  // if there is no memory for the new order
    order_.resize(static_cast<std::size_t>(samples_));
    std::iota(order_.begin(), order_.end(), 0);
    if (options_.shuffle) shuffle(order_, options_.seed, at.epoch);
    if (!sizes_.empty()) group_by_size(at.epoch);
    shuffled_epoch_ = at.epoch;
  }
  const int64_t begin = (at.step * options_.ranks + options_.rank) * options_.batch;
  const int64_t count = std::min(options_.batch, samples_ - begin);
  return {order_.data() + begin, static_cast<std::size_t>(count)};
}

Position EpochOrder::after(Position at) const {
  if (++at.step == steps_) at = {at.epoch + 1, 0};
  return at;
}

}  // namespace etude::data::internal
