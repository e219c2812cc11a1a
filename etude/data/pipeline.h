// SPDX-License-Identifier: Apache-2.0
// What data pipelines are made of, for elements of any type: programs that use a Dataset
// (dataset.h) compile none of it. A stage describes a step and is immutable; a cursor is one walk
// through it. A walk is a function of its number ("pass") and of the elements before it, never of
// timing, so the number of elements that it gave is all that has to be saved of it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "etude/core/ambient.h"
#include "etude/core/option_ranges.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

enum class OnError : std::uint8_t {
  kThrow,  // the error names the element
  kSkip,   // the element is left out and counted; errors that may pass (memory, Ctrl-C) are thrown
};

struct MapOptions {
  // Elements in work at a time, on the threads of the library; 1: one by one in the thread that
  // asks. The order of the results is that of the elements.
  std::int64_t parallel = 1;
  OnError on_error = OnError::kThrow;
  std::uint64_t seed = 0;  // of what the function draws: a sequence of its own for each element

  static constexpr void ranges(const auto& row) {
    row("parallel", &MapOptions::parallel, at_least(1));
  }
};

// Elements that OnError::kSkip left out of a walk, with those that a prefetch has met ahead.
struct Skipped {
  std::int64_t count = 0;
  std::vector<std::string> first;  // messages of the first few
};

namespace internal {

using Element = std::shared_ptr<void>;  // a value of the type that the stage gives; null: the end
class SkipLog;

inline constexpr std::int64_t kUnknownSize = -1;
inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

struct Walk {
  std::int64_t pass = 0;  // shuffles and draws differ by it
  Phase phase = Phase::kInference;
  std::shared_ptr<SkipLog> log;
};

// confined to one thread at a time. After an exception it must not be used.
class Cursor {
 public:
  virtual ~Cursor() = default;
  // The next element. Null at the end, and ever after.
  virtual Element next() = 0;
  // Goes past n elements, without making them where it can; gives how many there were.
  virtual std::int64_t skip(std::int64_t n);
};

// threads: thread-safe to open.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual std::unique_ptr<Cursor> open(const Walk& walk) const = 0;
  virtual std::int64_t size() const = 0;  // kUnknownSize; kEndless
  virtual std::string text() const = 0;   // "tensors(10) | shuffle(4, seed 1) | batch(2)"
};
using StagePtr = std::shared_ptr<const Stage>;

using Make = std::function<Element(Element)>;
// Elements at(0) .. at(size - 1). `at` is called from several threads.
StagePtr indexed_stage(std::int64_t size, std::function<Element(std::int64_t)> at,
                       std::string text);
// What the function that `open` gives returns, until it returns null.
StagePtr generated_stage(std::function<std::function<Element()>()> open, std::string text);
// Cursors made by `open`; for sources that can skip.
StagePtr source_stage(std::function<std::unique_ptr<Cursor>()> open, std::string text);
StagePtr map_stage(StagePtr from, Make f, MapOptions options);
StagePtr filter_stage(StagePtr from, std::function<bool(const Element&)> keep);
StagePtr shuffle_stage(StagePtr from, std::int64_t buffer, std::uint64_t seed);
// `n` elements at a time, handed to `join`.
using Join = std::function<Element(std::vector<Element>)>;
StagePtr group_stage(StagePtr from, std::int64_t n, bool drop_remainder, Join join,
                     std::string text);
// Elements whose size is at most bounds[i] and over bounds[i - 1] make up bucket i; larger ones the
// last one. A full bucket is handed to `join`; at the end all, those of the largest first.
StagePtr bucket_stage(StagePtr from, std::function<std::int64_t(const Element&)> size,
                      std::vector<std::int64_t> bounds, std::vector<std::int64_t> batches,
                      bool drop_remainder, Join join);
StagePtr repeat_stage(StagePtr from, std::int64_t times);
StagePtr take_stage(StagePtr from, std::int64_t n);
StagePtr skip_stage(StagePtr from, std::int64_t n);
StagePtr zip_stage(std::vector<StagePtr> from, Join join);
StagePtr concatenate_stage(std::vector<StagePtr> from);
// Element i where i % count == rank.
StagePtr shard_stage(StagePtr from, std::int64_t rank, std::int64_t count);
StagePtr prefetch_stage(StagePtr from, std::int64_t n);
// Keeps the elements of the first walk that comes to its end; `copy` copies one.
StagePtr cache_stage(StagePtr from, std::function<Element(const Element&)> copy);
// The elements of the stages that `open` makes of elements, one of each in turn, `cycle` at a time.
StagePtr interleave_stage(StagePtr from, std::function<StagePtr(Element)> open, std::int64_t cycle);
// Walks are numbered from `pass`.
StagePtr pass_stage(StagePtr from, std::int64_t pass);

// The number of elements of a walk. throws: kInvalidArgument if there are none, or no end.
std::int64_t count_elements(const Stage& stage);
[[noreturn]] void throw_empty(const std::string& text, CallSite where);

// A walk that knows its position. confined to one thread at a time.
class PipelineWalk {
 public:
  explicit PipelineWalk(StagePtr stage);
  // Null at the end. throws: what a stage throws; from then on always that.
  Element next();
  std::int64_t position() const { return position_; }
  // throws: kOutOfRange, naming both, for a position beyond the end.
  void seek(std::int64_t position);
  Skipped skipped() const;
  const Stage& stage() const { return *stage_; }

 private:
  void start();

  StagePtr stage_;
  std::shared_ptr<SkipLog> log_;
  std::unique_ptr<Cursor> cursor_;
  std::int64_t position_ = 0;
  std::exception_ptr failure_;
};

}  // namespace internal
}  // namespace data
}  // namespace etude
