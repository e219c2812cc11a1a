// SPDX-License-Identifier: Apache-2.0
// Loader: an endless series of batches over samples in memory, shuffled for each epoch and prepared
// in a background thread. The order is a function of seed and position, so a run can be stopped,
// saved and resumed with the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/data/internal/prefetch.h"
#include "etude/data/rows.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

struct LoaderOptions {
  int64_t batch = 32;
  uint64_t seed = 0;
  bool shuffle = true;
  bool keep_remainder = false;  // also return a last, smaller batch
  int prefetch = 2;             // batches prepared ahead; 0: next() prepares them
  int64_t rank = 0, ranks = 1;  // ranks with the same seed share the batches equally

  static constexpr void ranges(const auto& option) {
    option("batch", &LoaderOptions::batch, at_least(1));
    option("prefetch", &LoaderOptions::prefetch, at_least(0));
  }
};

// The position in a series of batches: `step` batches of epoch `epoch` are done.
struct Position {
  int64_t epoch = 0;
  int64_t step = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// The planned number of epochs of a run. fit sets the number and checkpoints store it, to detect a
// run that continues with another number.
struct LoaderPlan {
  int64_t epochs = 0;           // 0: not set
  std::string checkpoint = {};  // the file that the plan was read from; fit clears it
};

namespace internal {

// Finds the samples of batch `step` of epoch `epoch`.
class EpochOrder {
 public:
  EpochOrder() = default;
  // throws: kInvalidArgument if there are too few samples for one batch per rank, or for a rank out
  // of range.
  EpochOrder(int64_t samples, const LoaderOptions& options);
  // Batches of samples of similar size: the samples of every `batches_per_sort` consecutive batches
  // are sorted. The batch with the largest sample comes first, and an incomplete batch last. The
  // order of the other batches is random if options.shuffle is true.
  EpochOrder(std::vector<int64_t> sizes, int64_t batches_per_sort, const LoaderOptions& options);

  int64_t steps_per_epoch() const { return steps_; }
  // Returns the samples of the batch at this position; valid until the next call.
  // throws: kOutOfRange for a step beyond the epoch.
  // cost: O(samples) at the first step of an epoch.
  std::span<const int64_t> rows(Position at);
  Position after(Position at) const;

 private:
  void group_by_size(int64_t epoch);

  int64_t samples_ = 0, steps_ = 0;
  LoaderOptions options_;
  std::vector<int64_t> sizes_;  // of the samples; empty: batches are not sorted
  int64_t batches_per_sort_ = 0;
  int64_t shuffled_epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace internal

namespace internal {

// Samples in tensors whose first axis counts the samples.
template <class S>
struct TensorStore {
  S samples;
  int64_t count() const { return sample_count(samples); }
  S take(std::span<const int64_t> rows) const { return take_samples(samples, rows); }
};

// The common part of Loader and BucketedLoader. A Store holds the samples and makes the batches.
template <class S, class Store>
class LoaderBase {
 public:
  using Batch = S;

  LoaderBase(const LoaderBase& other)
      : store_(other.store_),
        options_(other.options_),
        order_(other.order_),
        made_(other.order_),
        position_(other.position_),
        plan_(other.plan_) {}
  LoaderBase& operator=(const LoaderBase& other) {
    if (this != &other) *this = LoaderBase(other);
    return *this;
  }
  // The background thread refers to members, so a move ends the thread. The next call of next()
  // starts another thread.
  LoaderBase(LoaderBase&& other) noexcept { take_over(other); }
  LoaderBase& operator=(LoaderBase&& other) noexcept {
    if (this != &other) take_over(other);
    return *this;
  }

  // Returns the next batch and advances the position. throws: kResourceExhausted.
  S next(CallSite where = CallSite::here()) {
    return etude::internal::located("Loader::next", where, [&] {
      S batch = options_.prefetch > 0 ? taken() : store_.take(order_.rows(position_));
      position_ = order_.after(position_);
      return batch;
    });
  }

  int64_t steps_per_epoch() const { return order_.steps_per_epoch(); }
  int64_t samples() const { return store_.count(); }
  const LoaderOptions& options() const { return options_; }
  Position position() const { return position_; }
  const LoaderPlan& plan() const { return plan_; }
  void set_plan(LoaderPlan plan) { plan_ = std::move(plan); }
  // Continues after `step` batches of `epoch`, as if next() had returned them.
  // throws: kOutOfRange for a step beyond the epoch.
  void seek(Position position, CallSite where = CallSite::here()) {
    prepare_seek(position, where)();
  }
  // For checkpoints. The returned function exchanges the position and the given one, and does not
  // throw. throws: as seek().
  std::function<void()> prepare_seek(Position position, CallSite where = CallSite::here()) {
    etude::internal::located("Loader::seek", where,
                             [&] { static_cast<void>(order_.rows(position)); });
    return [this, position]() mutable {
      std::swap(position_, position);
      ahead_.reset();
    };
  }

 protected:
  LoaderBase(Store store, const LoaderOptions& options)
      : store_(std::move(store)), options_(options) {}
  ~LoaderBase() = default;
  const Store& store() const { return store_; }
  void set_order(EpochOrder order) {
    order_ = std::move(order);
    made_ = order_;
  }

 private:
  S taken() {
    if (ahead_ == nullptr) {
      made_ = order_;
      ahead_ = std::make_unique<Prefetcher<S>>(
          [this, at = position_]() mutable {
            S batch = store_.take(made_.rows(at));
            at = made_.after(at);
            return batch;
          },
          static_cast<std::size_t>(options_.prefetch));
    }
    return ahead_->take();
  }

  void take_over(LoaderBase& other) noexcept {
    other.ahead_.reset();
    ahead_.reset();
    store_ = std::move(other.store_);
    options_ = other.options_;
    order_ = std::move(other.order_);
    made_ = std::move(other.made_);
    position_ = other.position_;
    plan_ = std::move(other.plan_);
  }

  Store store_;
  LoaderOptions options_;
  EpochOrder order_;
  EpochOrder made_;  // belongs to the background thread
  Position position_;
  LoaderPlan plan_;
  std::unique_ptr<Prefetcher<S>> ahead_;  // last: ends before the members that it reads
};

}  // namespace internal

// A value type: a copy continues independently from the same position.
//
//   data::Loader loader(train, {.batch = 128, .seed = 1});
//   for (int i = 0; i < 10 * loader.steps_per_epoch(); ++i) {
//     const data::Samples batch = loader.next();
//   }
//
// S is a pytree of tensors with equal first axes. Construction reads no sample.
// threads: thread-compatible.
template <class S>
class Loader : public internal::LoaderBase<S, internal::TensorStore<S>> {
 public:
  // throws: kInvalidArgument for tensors with different numbers of samples, for options out of
  //         range, or if there are too few samples for one batch per rank.
  explicit Loader(S samples, LoaderOptions options = {}, CallSite where = CallSite::here())
      : internal::LoaderBase<S, internal::TensorStore<S>>({std::move(samples)}, options) {
    etude::internal::located("Loader", where, [&] {
      etude::internal::check_options("Loader", options, where);
      this->set_order(internal::EpochOrder(this->store().count(), options));
    });
  }
};

// Batches of `n` samples, in order, once: for (const Samples& b : batches(test, 500)). The last
// batch may be smaller. `samples` must outlive the range. cost: as slice_rows for each batch.
template <class S>
class Batches {
 public:
  Batches(const S& samples, int64_t n, CallSite where)
      : samples_(&samples),
        n_(n),
        size_(etude::internal::located("batches", where, [&] { return sample_count(samples); })) {}

  class Iterator {
   public:
    Iterator(const Batches* all, int64_t at) : all_(all), at_(at) {}
    S operator*() const {
      return slice_samples(*all_->samples_, at_, std::min(at_ + all_->n_, all_->size_));
    }
    Iterator& operator++() {
      at_ = std::min(at_ + all_->n_, all_->size_);
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const Batches* all_;
    int64_t at_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  const S* samples_;
  int64_t n_, size_;
};

template <class S>
Batches<S> batches(const S& samples, int64_t n, CallSite where = CallSite::here()) {
  return Batches<S>(samples, n < 1 ? 1 : n, where);
}

// Deprecated names. The next release removes them.
template <class S>
using Epochs [[deprecated("data::Epochs is data::Loader")]] = Loader<S>;
using EpochsOptions [[deprecated("data::EpochsOptions is data::LoaderOptions")]] = LoaderOptions;

}  // namespace data
}  // namespace etude
