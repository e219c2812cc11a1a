// SPDX-License-Identifier: Apache-2.0
// Dataset: a pipeline of elements of any type, described once and iterated any number of times. The
// order of the elements depends only on the description, even if functions run in parallel. So an
// iteration can be resumed from the number of elements that it has returned. For samples in memory,
// Loader (loader.h) is faster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/core/call/call_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/data/dataset_iterator.h"
#include "etude/data/pipeline.h"
#include "etude/data/rows.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

struct BatchOptions {
  bool drop_remainder = false;
};
struct PadOptions {
  bool drop_remainder = false;
  double value = 0;  // the value of the padding
};

// A value type: a copy is equal and costs O(1). Each iteration returns the same elements. Each
// epoch of repeat() and epoch() has its own order and its own random draws.
//
//   auto train = data::from_list(paths)
//                    .shuffle(10000, 1)
//                    .map(load, {.parallel = 8})
//                    .batch(32)
//                    .prefetch(2);
//   for (const data::Samples& batch : train.epoch(3)) { ... }
//
// Functions may be called from any thread. The functions of map, interleave and flat_map own their
// argument.
// throws (all methods): kInvalidArgument for a number below its minimum.
// threads: thread-safe; iterations are confined to one thread at a time.
template <class T>
class Dataset {
 public:
  using Value = T;
  explicit Dataset(internal::StagePtr stage) : stage_(std::move(stage)) {}

  // Returns f(element) for each element. Random draws inside f depend only on options.seed, the
  // epoch and the index of the element.
  // throws: during iteration, the errors of f, with a prefix such as "map: element 17".
  template <class F>
  auto map(F f, MapOptions options = {}, CallSite where = CallSite::here()) const {
    using U = etude::internal::owned_t<std::invoke_result_t<F&, T>>;
    etude::internal::check_options("Dataset::map", options, where);
    return Dataset<U>(internal::map_stage(
        stage_,
        [f = std::move(f)](internal::Element element) mutable {
          return internal::element_of<U>(
              etude::internal::call_owned(f, std::move(internal::value_in<T>(element))));
        },
        options));
  }
  // Keeps the elements for which keep(element) is true.
  template <class F>
  Dataset filter(F keep) const {
    return Dataset(internal::filter_stage(
        stage_, [keep = std::move(keep)](const internal::Element& element) mutable {
          return static_cast<bool>(keep(std::as_const(internal::value_in<T>(element))));
        }));
  }
  // Shuffles with a buffer of `buffer` elements: returns a random element of the buffer, then
  // refills the buffer with the next element. All orders are equally likely if `buffer` is at least
  // the number of elements. Each epoch of repeat() has its own order.
  Dataset shuffle(int64_t buffer, uint64_t seed = 0, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::shuffle", "buffer", buffer, 1, where);
    return Dataset(internal::shuffle_stage(stage_, buffer, seed));
  }
  // Stacks every `n` consecutive elements along a new first axis. Elements must be pytrees of
  // tensors.
  // throws: during iteration, kInvalidArgument for elements of different types.
  Dataset batch(int64_t n, BatchOptions options = {}, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::batch", "n", n, 1, where);
    return Dataset(internal::group_stage(stage_, n, options.drop_remainder, joined(), "batch"));
  }
  // As batch, but each axis is padded to its largest size in the batch.
  Dataset padded_batch(int64_t n, PadOptions options = {},
                       CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::padded_batch", "n", n, 1, where);
    return Dataset(internal::group_stage(stage_, n, options.drop_remainder, padded(options.value),
                                         "padded_batch"));
  }
  // Returns padded batches of elements of similar size, with little padding. Bucket i collects
  // elements with sizes up to bounds[i], and forms batches of batches[i] elements. A last bucket
  // collects larger elements, so `batches` has one more entry than `bounds`. Smaller batches of the
  // remaining elements come at the end, the largest elements first.
  template <class F>
  Dataset buckets(F size, std::vector<int64_t> bounds, std::vector<int64_t> batches,
                  PadOptions options = {}, CallSite where = CallSite::here()) const {
    return etude::internal::located("Dataset::buckets", where, [&] {
      return Dataset(internal::bucket_stage(
          stage_,
          [size = std::move(size)](const internal::Element& element) mutable {
            return static_cast<int64_t>(size(std::as_const(internal::value_in<T>(element))));
          },
          std::move(bounds), std::move(batches), options.drop_remainder, padded(options.value)));
    });
  }
  // Returns the samples of the batches, one by one.
  Dataset unbatch() const {
    return flat_map([](T batch) {
      auto shared = std::make_shared<const T>(std::move(batch));
      const int64_t count = sample_count(*shared);
      return Dataset(internal::indexed_stage(
          count, [shared](int64_t i) { return internal::element_of(sample_at(*shared, i)); },
          "rows"));
    });
  }
  // Groups every `n` consecutive elements into a vector.
  Dataset<std::vector<T>> window(int64_t n, BatchOptions options = {},
                                 CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::window", "n", n, 1, where);
    const auto join = [](const std::vector<internal::Element>& elements) {
      return internal::element_of(internal::values_in<T>(elements));
    };
    return Dataset<std::vector<T>>(
        internal::group_stage(stage_, n, options.drop_remainder, join, "window"));
  }
  // Repeats all elements `times` times, endlessly by default.
  Dataset repeat(int64_t times = internal::kEndless, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::repeat", "times", times, 0, where);
    return Dataset(internal::repeat_stage(stage_, times));
  }
  // Returns epoch `number` of repeat().
  Dataset epoch(int64_t number, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::epoch", "number", number, 0, where);
    return Dataset(internal::pass_stage(stage_, number));
  }
  Dataset take(int64_t n, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::take", "n", n, 0, where);
    return Dataset(internal::take_stage(stage_, n));
  }
  Dataset skip(int64_t n, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::skip", "n", n, 0, where);
    return Dataset(internal::skip_stage(stage_, n));
  }
  Dataset concatenate(const Dataset& more) const {
    return Dataset(internal::concatenate_stage({stage_, more.stage_}));
  }
  // Keeps every count-th element, from element `rank` on: the share of worker `rank` among `count`
  // workers. Put shard() before expensive stages. throws: kInvalidArgument for a rank out of range.
  Dataset shard(int64_t rank, int64_t count, CallSite where = CallSite::here()) const {
    return etude::internal::located("Dataset::shard", where, [&] {
      return Dataset(internal::shard_stage(stage_, rank, count));
    });
  }
  // Prepares up to n elements ahead in a background thread. Changes neither the elements nor their
  // order.
  Dataset prefetch(int64_t n, CallSite where = CallSite::here()) const {
    internal::check_count("Dataset::prefetch", "n", n, 0, where);
    return Dataset(internal::prefetch_stage(stage_, n));
  }
  // Caches the elements of the first complete iteration in memory. Later iterations return copies,
  // in the same order.
  Dataset cache() const {
    return Dataset(internal::cache_stage(stage_, [](const internal::Element& element) {
      return internal::element_of<T>(T(internal::value_in<T>(element)));
    }));
  }
  // Interleaves the Datasets open(element): takes one element of each in turn, from `cycle`
  // Datasets at a time.
  template <class F>
  auto interleave(F open, int64_t cycle, CallSite where = CallSite::here()) const {
    using Inner = std::remove_cvref_t<std::invoke_result_t<F&, T>>;
    internal::check_count("Dataset::interleave", "cycle", cycle, 1, where);
    return Inner(internal::interleave_stage(
        stage_,
        [open = std::move(open)](internal::Element element) mutable {
          return open(std::move(internal::value_in<T>(element))).stage();
        },
        cycle));
  }
  // Concatenates the Datasets open(element).
  template <class F>
  auto flat_map(F open) const {
    return interleave(std::move(open), 1);
  }
  // Pairs each element with its index, counted from 0.
  Dataset<std::tuple<int64_t, T>> enumerate() const;

  DatasetIterator<T> iterate() const { return DatasetIterator<T>(*this); }
  class Iterator {
   public:
    explicit Iterator(const Dataset& data) : walk_(data), value_(walk_.next(CallSite{})) {}
    T& operator*() { return *value_; }
    Iterator& operator++() {
      value_ = walk_.next(CallSite{});
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return value_.has_value(); }

   private:
    DatasetIterator<T> walk_;
    std::optional<T> value_;
  };
  Iterator begin() const { return Iterator(*this); }
  std::nullptr_t end() const { return nullptr; }

  // Returns the number of elements; std::nullopt if the number is infinite or unknown before an
  // iteration.
  std::optional<int64_t> size() const {
    const int64_t n = stage_->size();
    if (n < 0 || n == internal::kEndless) return std::nullopt;
    return n;
  }
  const internal::StagePtr& stage() const { return stage_; }

 private:
  static internal::Join joined() {
    return [](const std::vector<internal::Element>& elements) {
      const std::vector<T> samples = internal::values_in<T>(elements);
      return internal::element_of(collate(std::span<const T>(samples)));
    };
  }
  static internal::Join padded(double value) {
    return [value](const std::vector<internal::Element>& elements) {
      const std::vector<T> samples = internal::values_in<T>(elements);
      return internal::element_of(collate_padded(std::span<const T>(samples), value));
    };
  }

  internal::StagePtr stage_;
};

}  // namespace data
}  // namespace etude
