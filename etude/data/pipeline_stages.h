// SPDX-License-Identifier: Apache-2.0
// The common part of the sources of stages: the log of skipped elements, errors that name an
// element, and a stage made of a function that opens it. For pipeline*.cc.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "etude/base/check.h"
#include "etude/data/pipeline.h"

namespace etude::data::internal {

// threads: thread-safe.
class SkipLog {
 public:
  void add(std::string message) {
    const std::lock_guard lock(mutex_);
    if (++skipped_.count <= kKept) skipped_.first.push_back(std::move(message));
  }
  Skipped read() const {
    const std::lock_guard lock(mutex_);
    return skipped_;
  }

 private:
  static constexpr int64_t kKept = 8;
  mutable std::mutex mutex_;
  Skipped skipped_;
};

// Throws the current exception as an Error, prefixed by the index of the element. An exception of
// another type is nested in it.
[[noreturn]] void rethrow_for_element(std::string_view stage, int64_t index);

// Runs f as the work on an element.
template <class F>
decltype(auto) for_element(std::string_view stage, int64_t index, F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_for_element(stage, index);
  }
}

// A stage whose cursors have type C. A cursor is made from the previous cursor, the iteration and
// `rest`.
class StageFrom : public Stage {
 public:
  StageFrom(std::vector<StagePtr> from, int64_t size, std::string text)
      : from_(std::move(from)), size_(size), text_(std::move(text)) {}
  int64_t size() const override { return size_; }
  std::string text() const override {
    return from_.size() == 1 ? from_[0]->text() + " | " + text_ : text_;
  }

 protected:
  const StagePtr& from(std::size_t i = 0) const { return from_[i]; }
  const std::vector<StagePtr>& all_from() const { return from_; }

 private:
  std::vector<StagePtr> from_;
  int64_t size_;
  std::string text_;
};

template <class Open>
class OpenedStage final : public StageFrom {
 public:
  OpenedStage(std::vector<StagePtr> from, int64_t size, std::string text, Open open)
      : StageFrom(std::move(from), size, std::move(text)), open_(std::move(open)) {}
  std::unique_ptr<Cursor> open(const Walk& walk) const override { return open_(all_from(), walk); }

 private:
  Open open_;
};

// `open` is called with the previous stages and the iteration.
template <class Open>
StagePtr make_stage(std::vector<StagePtr> from, int64_t size, std::string text, Open open) {
  return std::make_shared<OpenedStage<Open>>(std::move(from), size, std::move(text),
                                             std::move(open));
}

// Whether `size` is a finite number of elements.
constexpr bool is_finite(int64_t size) { return size >= 0 && size != kEndless; }

}  // namespace etude::data::internal
