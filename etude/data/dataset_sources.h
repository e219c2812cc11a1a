// SPDX-License-Identifier: Apache-2.0
// Sources of Datasets: tensors, lists, generators and other Datasets. Also DatasetLoader, the
// adapter for `fit`. Sources that read files are in etude/io.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etude/data/dataset.h"
#include "etude/data/loader.h"

namespace ETUDE_API etude {
namespace data {

// Returns the samples of a pytree of tensors with equal first axes, one by one. The elements do not
// have this axis.
//
// throws: kInvalidArgument for tensors with different numbers of samples.
template <class S>
Dataset<S> from_tensors(S samples, CallSite where = CallSite::here()) {
  const int64_t count =
      etude::internal::located("from_tensors", where, [&] { return sample_count(samples); });
  auto shared = std::make_shared<const S>(std::move(samples));
  return Dataset<S>(internal::indexed_stage(
      count, [shared](int64_t i) { return internal::element_of(sample_at(*shared, i)); },
      "tensors(" + std::to_string(count) + ")"));
}

template <class T>
Dataset<T> from_list(std::vector<T> values) {
  auto shared = std::make_shared<const std::vector<T>>(std::move(values));
  const auto count = static_cast<int64_t>(shared->size());
  return Dataset<T>(internal::indexed_stage(
      count,
      [shared](int64_t i) {
        return internal::element_of<T>(T((*shared)[static_cast<std::size_t>(i)]));
      },
      "list(" + std::to_string(count) + ")"));
}

// Returns 0, 1, ... n - 1; endless by default.
Dataset<int64_t> count_up(int64_t n = internal::kEndless);

// Returns the elements of a generator. Each iteration calls `open` to make a function. The function
// returns the next element as a std::optional, which is empty at the end. A resumed iteration runs
// the generator again, so the generator must return the same elements each time.
//
//   auto squares = data::from_generator([] {
//     return [i = 0]() mutable -> std::optional<Tensor> { ++i; return Tensor(i * i); };
//   });
template <class Open>
auto from_generator(Open open, std::string name = "generator") {
  using Next = std::invoke_result_t<Open&>;
  using T = typename std::invoke_result_t<Next&>::value_type;
  return Dataset<T>(internal::generated_stage(
      [open = std::move(open)]() mutable -> std::function<internal::Element()> {
        return [next = open()]() mutable -> internal::Element {
          auto value = next();
          return value.has_value() ? internal::element_of<T>(std::move(*value)) : nullptr;
        };
      },
      std::move(name)));
}

// Returns tuples: tuple i has element i of each Dataset. Ends with the shortest Dataset.
template <class... T>
Dataset<std::tuple<T...>> zip(const Dataset<T>&... parts) {
  const auto join = [](const std::vector<internal::Element>& elements) {
    const auto all = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return internal::element_of(
          std::tuple<T...>(std::move(internal::value_in<T>(elements[I]))...));
    };
    return all(std::index_sequence_for<T...>());
  };
  return Dataset<std::tuple<T...>>(internal::zip_stage({parts.stage()...}, join));
}

template <class T>
Dataset<std::tuple<int64_t, T>> Dataset<T>::enumerate() const {
  return zip(count_up(), *this);
}

// An endless series of epochs of a Dataset, whose elements are batches. Each epoch has its own
// order. `fit` and checkpoints accept a DatasetLoader in place of a Loader.
//
//   data::DatasetLoader batches(train.batch(32).prefetch(2));
//   nn::fit(model, optimizer, batches, loss, {.epochs = 10});
template <class S>
class DatasetLoader {
 public:
  using Batch = S;

  // throws: kInvalidArgument for a Dataset without elements or without an end.
  // cost: an iteration of the Dataset, unless its size is known.
  explicit DatasetLoader(Dataset<S> data, CallSite where = CallSite::here())
      : data_(std::move(data)), walk_(data_) {
    steps_ = etude::internal::located("DatasetLoader", where,
                                      [&] { return internal::count_elements(*data_.stage()); });
  }

  S next(CallSite where = CallSite::here()) {
    if (is_behind_) seek(position_, where);
    std::optional<S> batch = walk_.next(where);
    if (!batch.has_value()) {  // the epoch is shorter than the counted one
      seek({position_.epoch + 1, 0}, where);
      batch = walk_.next(where);
      if (!batch.has_value()) internal::throw_empty(data_.stage()->text(), where);
    }
    if (++position_.step == steps_) start_epoch(position_.epoch + 1, where);
    return std::move(*batch);
  }
  int64_t steps_per_epoch() const { return steps_; }
  Position position() const { return position_; }
  // throws: kOutOfRange for a step beyond the epoch. The position is then as before.
  void seek(Position position, CallSite where = CallSite::here()) {
    prepare_seek(position, where)();
  }
  // For checkpoints. The returned function exchanges the position and the given one, and does not
  // throw. throws: as seek().
  std::function<void()> prepare_seek(Position position, CallSite where = CallSite::here()) {
    auto other = std::make_shared<DatasetIterator<S>>(data_.epoch(position.epoch, where));
    other->seek(position.step, where);
    return [this, other, position, is_behind = false]() mutable {
      std::swap(walk_, *other);
      std::swap(position_, position);
      std::swap(is_behind_, is_behind);
    };
  }
  Skipped skipped() const { return walk_.skipped(); }
  std::string pipeline() const { return data_.stage()->text(); }

 private:
  // The batch that was taken is not lost if the epoch cannot start: the next call tries again.
  void start_epoch(int64_t epoch, CallSite where) {
    position_ = {epoch, 0};
    is_behind_ = true;
    try {
      seek(position_, where);
    } catch (const std::exception&) {
    }
  }

  Dataset<S> data_;
  DatasetIterator<S> walk_;
  Position position_;
  bool is_behind_ = false;  // walk_ is not at the position
  int64_t steps_ = 0;
};

// A deprecated name. The next release removes it.
template <class S>
using DatasetEpochs [[deprecated("data::DatasetEpochs is data::DatasetLoader")]] = DatasetLoader<S>;

}  // namespace data
}  // namespace etude
