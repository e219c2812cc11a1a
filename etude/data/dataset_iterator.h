// SPDX-License-Identifier: Apache-2.0
// A walk through a Dataset, and its elements by type. Included by dataset.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/call_scope.h"
#include "etude/data/pipeline.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

template <class T>
class Dataset;

namespace internal {

template <class T>
Element element_of(T value) {
  return std::make_shared<T>(std::move(value));
}
template <class T>
T& value_in(const Element& element) {
  return *static_cast<T*>(element.get());
}
template <class T>
std::vector<T> values_in(const std::vector<Element>& elements) {
  std::vector<T> values;
  values.reserve(elements.size());
  for (const Element& element : elements) values.push_back(std::move(value_in<T>(element)));
  return values;
}
// throws: kInvalidArgument, "Dataset::batch: n is 0, but must be at least 1".
inline void check_count(std::string_view method, std::string_view name, std::int64_t n,
                        std::int64_t least, CallSite where) {
  etude::internal::check_range(method, name, static_cast<double>(n),
                               at_least(static_cast<double>(least)), where);
}

}  // namespace internal

// A walk through a Dataset.
//
//   auto batches = train.iterate();
//   while (auto batch = batches.next()) step(model, *batch);
//
// threads: confined to one thread at a time.
template <class T>
class DatasetIterator {
 public:
  explicit DatasetIterator(const Dataset<T>& data) : walk_(data.stage()) {}

  // The next element; nothing at the end, and ever after.
  //
  // throws: what the pipeline throws: an error of a function names function and element; from then
  //         on always that.
  std::optional<T> next(CallSite where = CallSite::here()) {
    return etude::internal::located("Dataset", where, [&]() -> std::optional<T> {
      const internal::Element element = walk_.next();
      if (element == nullptr) return std::nullopt;
      return std::move(internal::value_in<T>(element));
    });
  }

  // The number of elements that were given: all that has to be saved to go on here.
  std::int64_t position() const { return walk_.position(); }
  // Goes on behind the first `position` elements, as if they had been taken.
  //
  // throws: kOutOfRange for a position beyond the end.
  // cost:   functions of map do not run again but for what a shuffle holds; filters, buckets,
  //         generators and maps that skip go through all that was there.
  void seek(std::int64_t position, CallSite where = CallSite::here()) {
    etude::internal::located("DatasetIterator::seek", where, [&] { walk_.seek(position); });
  }
  // What was left out since the start of the walk, or since a `seek` that went back.
  Skipped skipped() const { return walk_.skipped(); }
  // The stages in words: what has to be the same when a walk is resumed.
  std::string pipeline() const { return walk_.stage().text(); }

 private:
  internal::PipelineWalk walk_;
};

}  // namespace data
}  // namespace etude
