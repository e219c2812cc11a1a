// SPDX-License-Identifier: Apache-2.0
#include "etude/data/epochs.h"

#include <numeric>

#include "etude/base/check.h"
#include "etude/base/philox.h"

namespace etude::data::internal {
namespace {

// Fisher and Yates; each epoch has a stream of its own. The high product of a 64-bit word and n has
// a bias below n / 2^64.
void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed, std::int64_t epoch) {
  const PhiloxKey key{seed, static_cast<std::uint64_t>(epoch)};
  for (std::size_t n = order.size(); n > 1; --n) {
    const auto words = philox(key, n);
    const std::uint64_t word = std::uint64_t{words[0]} << 32 | words[1];
    const auto pick = static_cast<std::size_t>((static_cast<unsigned __int128>(word) * n) >> 64);
    std::swap(order[n - 1], order[pick]);
  }
}

}  // namespace

EpochOrder::EpochOrder(std::int64_t samples, const EpochsOptions& options)
    : samples_(samples), steps_(0), options_(options) {
  steps_ = samples / options.batch;
  if (options.keep_remainder && samples % options.batch != 0) ++steps_;
  ETUDE_REQUIRE(steps_ > 0,
                "{} samples do not fill a batch of {}. Take a smaller batch, or keep_remainder",
                samples, options.batch);
}

std::span<const std::int64_t> EpochOrder::rows(Position at) {
  ETUDE_REQUIRE_CODE(kOutOfRange, at.epoch >= 0 && at.step >= 0 && at.step < steps_,
                     "step {} of epoch {} is asked for; an epoch has steps 0 to {}", at.step,
                     at.epoch, steps_ - 1);
  if (shuffled_epoch_ != at.epoch) {
    order_.resize(static_cast<std::size_t>(samples_));
    std::iota(order_.begin(), order_.end(), 0);
    if (options_.shuffle) shuffle(order_, options_.seed, at.epoch);
    shuffled_epoch_ = at.epoch;
  }
  const std::int64_t begin = at.step * options_.batch;
  const std::int64_t count = std::min(options_.batch, samples_ - begin);
  return {order_.data() + begin, static_cast<std::size_t>(count)};
}

Position EpochOrder::after(Position at) const {
  if (++at.step == steps_) at = {at.epoch + 1, 0};
  return at;
}

}  // namespace etude::data::internal
