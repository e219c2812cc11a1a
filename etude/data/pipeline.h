// SPDX-License-Identifier: Apache-2.0
// The stages of data pipelines, on elements of any type. The library implements them without
// templates, so programs that use a Dataset (dataset.h) compile quickly. A stage is an immutable
// description of a step. A cursor is one iteration of a stage. An element depends on the number of
// the iteration (the "pass") and on earlier elements, never on timing. So the position of an
// iteration is the number of elements that it has returned.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "etude/core/context/ambient.h"
#include "etude/core/option_ranges.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

enum class OnError : uint8_t {
  kThrow,  // the error names the element
  kSkip,   // skips and counts the element; transient errors (memory, Ctrl-C) are thrown
};

struct MapOptions {
  // The number of elements that are computed at a time, on the threads of the library. 1: one by
  // one, in the calling thread. Results are in the order of the elements.
  int64_t parallel = 1;
  OnError on_error = OnError::kThrow;
  uint64_t seed = 0;  // of random draws in the function; elements have separate sequences

  static constexpr void ranges(const auto& option) {
    option("parallel", &MapOptions::parallel, at_least(1));
  }
};

// Elements that OnError::kSkip removed from an iteration, including elements that were prefetched.
struct Skipped {
  int64_t count = 0;
  std::vector<std::string> first;  // error messages of the first few elements
};

namespace internal {

using Element = std::shared_ptr<void>;  // a value of the stage's element type; null: the end
class SkipLog;

inline constexpr int64_t kUnknownSize = -1;
inline constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

struct Walk {
  int64_t pass = 0;  // seeds shuffles and draws
  Phase phase = Phase::kInference;
  std::shared_ptr<SkipLog> log;
};

// A cursor must not be used after it has thrown.
// threads: confined to one thread at a time.
class Cursor {
 public:
  virtual ~Cursor() = default;
  // Returns the next element; null at the end and after it.
  virtual Element next() = 0;
  // Skips n elements, if possible without computing them. Returns the number of skipped elements.
  virtual int64_t skip(int64_t n);
};

// threads: open() is thread-safe.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual std::unique_ptr<Cursor> open(const Walk& walk) const = 0;
  virtual int64_t size() const = 0;      // or kUnknownSize, kEndless
  virtual std::string text() const = 0;  // "tensors(10) | shuffle(4, seed 1) | batch(2)"
};
using StagePtr = std::shared_ptr<const Stage>;

using Make = std::function<Element(Element)>;
// Elements at(0) .. at(size - 1). `at` is called from several threads.
StagePtr indexed_stage(int64_t size, std::function<Element(int64_t)> at, std::string text);
// The results of the function that `open` returns, until a result is null.
StagePtr generated_stage(std::function<std::function<Element()>()> open, std::string text);
// A stage. `open` makes its cursors. For sources that can skip elements.
StagePtr source_stage(std::function<std::unique_ptr<Cursor>()> open, std::string text);
StagePtr map_stage(StagePtr from, Make f, MapOptions options);
StagePtr filter_stage(StagePtr from, std::function<bool(const Element&)> keep);
StagePtr shuffle_stage(StagePtr from, int64_t buffer, uint64_t seed);
// Passes `n` elements at a time to `join`.
using Join = std::function<Element(std::vector<Element>)>;
StagePtr group_stage(StagePtr from, int64_t n, bool drop_remainder, Join join, std::string text);
// Bucket i holds elements with sizes in (bounds[i - 1], bounds[i]]; the last bucket holds larger
// elements. A full bucket is passed to `join`. At the end, `drop_remainder` drops the
// buckets that are not full. Otherwise they are passed too, the largest sizes first.
StagePtr bucket_stage(StagePtr from, std::function<int64_t(const Element&)> size,
                      std::vector<int64_t> bounds, std::vector<int64_t> batches,
                      bool drop_remainder, Join join);
StagePtr repeat_stage(StagePtr from, int64_t times);
StagePtr take_stage(StagePtr from, int64_t n);
StagePtr skip_stage(StagePtr from, int64_t n);
StagePtr zip_stage(std::vector<StagePtr> from, Join join);
StagePtr concatenate_stage(std::vector<StagePtr> from);
// The elements i with i % count == rank.
StagePtr shard_stage(StagePtr from, int64_t rank, int64_t count);
StagePtr prefetch_stage(StagePtr from, int64_t n);
// Caches the elements of the first iteration that reaches its end; `copy` copies an element.
StagePtr cache_stage(StagePtr from, std::function<Element(const Element&)> copy);
// `open` makes a stage of each element. Up to `cycle` of these stages are read at a time, one
// element of each in turn.
StagePtr interleave_stage(StagePtr from, std::function<StagePtr(Element)> open, int64_t cycle);
// Adds `pass` to the number of the iteration.
StagePtr pass_stage(StagePtr from, int64_t pass);

// Returns the number of elements of an iteration. throws: kInvalidArgument if the stage has no
// elements or no end.
int64_t count_elements(const Stage& stage);
[[noreturn]] void throw_empty(const std::string& text, CallSite where);

// An iteration that knows its position.
// threads: confined to one thread at a time.
class PipelineWalk {
 public:
  explicit PipelineWalk(StagePtr stage);
  // Null at the end. throws: the errors of stages. Later calls throw the same error, until seek().
  // After an error that may pass (may_pass in base/error.h), a later call tries the element again.
  Element next();
  int64_t position() const { return position_; }
  // throws: kOutOfRange for a negative position or a position beyond the end; the errors of stages.
  // The position is then as before.
  void seek(int64_t position);
  // Returns a function that exchanges this iteration and an iteration at `position`. The function
  // does not throw. throws: as seek().
  std::function<void()> prepare_seek(int64_t position);
  Skipped skipped() const;
  const Stage& stage() const { return *stage_; }

 private:
  void open();
  void note_failure() noexcept;
  void require_reached(int64_t position, int64_t reached) const;

  StagePtr stage_;
  std::shared_ptr<SkipLog> log_;
  std::unique_ptr<Cursor> cursor_;  // null after an error: next() opens it at the position
  int64_t position_ = 0;
  std::exception_ptr failure_;
};

}  // namespace internal
}  // namespace data
}  // namespace etude
