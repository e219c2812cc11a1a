// SPDX-License-Identifier: Apache-2.0
// An iteration of a Dataset, with typed elements. Included by dataset.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/call/call_scope.h"
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
inline void check_count(std::string_view method, std::string_view name, int64_t n, int64_t least,
                        CallSite where) {
  etude::internal::check_range(method, name, static_cast<double>(n),
                               at_least(static_cast<double>(least)), where);
}

}  // namespace internal

// An iteration of a Dataset.
//
//   auto batches = train.iterate();
//   while (auto batch = batches.next()) step(model, *batch);
//
// threads: confined to one thread at a time.
template <class T>
class DatasetIterator {
 public:
  explicit DatasetIterator(const Dataset<T>& data) : walk_(data.stage()) {}

  // Returns the next element; std::nullopt at the end and after it.
  //
  // throws: the errors of the pipeline. An error of a function names the function and the element.
  //         Later calls throw the same error, until seek(). After an error that may pass, such as a
  //         lack of memory or Ctrl-C, the next call tries the element again instead. This call
  //         costs as much as seek().
  std::optional<T> next(CallSite where = CallSite::here()) {
    return etude::internal::located("Dataset", where, [&]() -> std::optional<T> {
      const internal::Element element = walk_.next();
      if (element == nullptr) return std::nullopt;
      return std::move(internal::value_in<T>(element));
    });
  }

  // Returns the number of elements before the next element. Pass it to seek() to resume the
  // iteration here.
  int64_t position() const { return walk_.position(); }
  // Continues after the first `position` elements, as if next() had returned them.
  //
  // throws: kOutOfRange for a negative position or a position beyond the end. The position is then
  //         as before.
  // cost:   the functions of map do not run for skipped elements, except for elements in a shuffle
  //         buffer. Filters, buckets, generators and maps with OnError::kSkip process all earlier
  //         elements again.
  void seek(int64_t position, CallSite where = CallSite::here()) {
    etude::internal::located("DatasetIterator::seek", where, [&] { walk_.seek(position); });
  }
  // For checkpoints. Prepares a seek, and returns a function that completes it: the function swaps
  // this iteration with the prepared one, and does not throw. throws and cost: as seek() from the
  // beginning.
  std::function<void()> prepare_seek(int64_t position, CallSite where = CallSite::here()) {
    return etude::internal::located("DatasetIterator::seek", where,
                                    [&] { return walk_.prepare_seek(position); });
  }
  // Returns the number and the first errors of the elements that OnError::kSkip removed since the
  // start of the iteration or the last backward seek().
  Skipped skipped() const { return walk_.skipped(); }
  // Returns the stages as text. A checkpoint stores this text. An iteration can be resumed only if
  // its text equals the stored text.
  std::string pipeline() const { return walk_.stage().text(); }

 private:
  internal::PipelineWalk walk_;
};

}  // namespace data
}  // namespace etude
