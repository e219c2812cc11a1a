// SPDX-License-Identifier: Apache-2.0
// Walks, sources, and the stages that run functions: map, filter, prefetch, cache, interleave.
#include "etude/data/pipeline.h"

#include <deque>
#include <new>
#include <utility>

#include "etude/base/philox.h"
#include "etude/data/internal/prefetch.h"
#include "etude/data/pipeline_stages.h"
#include "etude/device/cpu/parallel.h"

namespace etude::data::internal {

void rethrow_for_element(std::string_view stage, int64_t index) {
  try {
    throw;
  } catch (const Error& error) {
    Error named(error.code(), fmt::format("{}: element {}: {}", stage, index, error.text()));
    named.locate(error.where());
    named.set_cause(error.cause());
    throw named;
  } catch (const std::bad_alloc&) {
    std::throw_with_nested(
        Error(ErrorCode::kResourceExhausted,
              fmt::format("{}: element {}: the host has no memory left", stage, index)));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(ErrorCode::kInvalidArgument,
                                 fmt::format("{}: element {}: {}", stage, index, error.what())));
  } catch (...) {
    std::throw_with_nested(
        Error(ErrorCode::kInvalidArgument,
              fmt::format("{}: element {}: an exception that is no std::exception", stage, index)));
  }
}

int64_t Cursor::skip(int64_t n) {
  int64_t done = 0;
  while (done < n && next() != nullptr) ++done;
  return done;
}

void throw_empty(const std::string& text, CallSite where) {
  Error error(ErrorCode::kInvalidArgument, text + " has no elements");
  error.locate(where);
  throw error;
}

int64_t count_elements(const Stage& stage) {
  int64_t size = stage.size();
  ETUDE_REQUIRE(size != kEndless, "{} has no end, so it makes no epochs. Leave out its repeat",
                stage.text());
  if (size == kUnknownSize) {
    const Walk walk{.pass = 0, .phase = ambient().phase, .log = std::make_shared<SkipLog>()};
    size = stage.open(walk)->skip(kEndless);
  }
  if (size == 0) throw_empty(stage.text(), {});
  return size;
}

PipelineWalk::PipelineWalk(StagePtr stage) : stage_(std::move(stage)) { open(); }

void PipelineWalk::open() {
  log_ = std::make_shared<SkipLog>();
  cursor_ = stage_->open({.pass = 0, .phase = ambient().phase, .log = log_});
}

// Call it where an exception is handled. A cursor is of no use after it.
void PipelineWalk::note_failure() noexcept {
  cursor_.reset();
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return;
  } catch (const Error& error) {
    if (may_pass(error.code())) return;
  } catch (...) {  // every later call throws it
  }
  failure_ = std::current_exception();
}

Element PipelineWalk::next() {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  try {
    if (cursor_ == nullptr) {
      open();
      cursor_->skip(position_);
    }
    Element element = cursor_->next();
    if (element != nullptr) ++position_;
    return element;
  } catch (...) {
    note_failure();
    throw;
  }
}

void PipelineWalk::require_reached(int64_t position, int64_t reached) const {
  ETUDE_REQUIRE_CODE(kOutOfRange, reached == position,
                     "position {} was requested, but {} has {} elements", position, stage_->text(),
                     reached);
}

void PipelineWalk::seek(int64_t position) {
  if (position < position_ || failure_ != nullptr || cursor_ == nullptr) {
    prepare_seek(position)();
    return;
  }
  int64_t reached = position_;
  try {
    reached += cursor_->skip(position - position_);
  } catch (...) {
    note_failure();
    throw;
  }
  if (reached != position) cursor_.reset();  // next() goes on where it was
  require_reached(position, reached);
  position_ = position;
}

std::function<void()> PipelineWalk::prepare_seek(int64_t position) {
  ETUDE_REQUIRE_CODE(kOutOfRange, position >= 0, "position {} was requested; the first is 0",
                     position);
  const auto other = std::make_shared<PipelineWalk>(stage_);
  require_reached(position, other->cursor_->skip(position));
  other->position_ = position;
  return [this, other] { std::swap(*this, *other); };
}

Skipped PipelineWalk::skipped() const { return log_->read(); }

namespace {

class IndexedCursor final : public Cursor {
 public:
  IndexedCursor(int64_t size, const std::function<Element(int64_t)>& at) : size_(size), at_(at) {}
  Element next() override { return index_ < size_ ? at_(index_++) : nullptr; }
  int64_t skip(int64_t n) override {
    const int64_t done = std::min(n, size_ - index_);
    index_ += done;
    return done;
  }

 private:
  int64_t size_, index_ = 0;
  std::function<Element(int64_t)> at_;
};

class GeneratedCursor final : public Cursor {
 public:
  explicit GeneratedCursor(std::function<Element()> make) : make_(std::move(make)) {}
  Element next() override {
    if (make_ == nullptr) return nullptr;
    Element element = make_();
    if (element == nullptr) make_ = nullptr;  // it is not asked again
    return element;
  }

 private:
  std::function<Element()> make_;
};

// The elements in work are taken together, so that a slow one holds up no more than they are.
class MapCursor final : public Cursor {
 public:
  MapCursor(std::unique_ptr<Cursor> from, const Make& f, const MapOptions& options,
            const Walk& walk)
      : from_(std::move(from)), f_(f), options_(options), walk_(walk) {}

  Element next() override {
    for (;;) {
      if (ready_.empty()) fill();
      if (ready_.empty()) return nullptr;
      Slot slot = std::move(ready_.front());
      ready_.pop_front();
      if (slot.error == nullptr) return std::move(slot.value);
      if (!slot.is_ours || options_.on_error == OnError::kThrow) std::rethrow_exception(slot.error);
      note_skipped(slot.error);
    }
  }

  int64_t skip(int64_t n) override {
    if (options_.on_error == OnError::kSkip) return Cursor::skip(n);  // f decides which count
    int64_t done = 0;
    for (; done < n && !ready_.empty(); ++done) {
      if (!ready_.front().is_ours) std::rethrow_exception(ready_.front().error);
      ready_.pop_front();
    }
    const int64_t more = from_->skip(n - done);
    index_ += more;
    return done + more;
  }

 private:
  struct Slot {
    Element value;
    std::exception_ptr error;
    int64_t index = 0;
    bool is_ours = true;  // the error is f's, not one of a stage before
  };

  void fill() {
    while (static_cast<int64_t>(ready_.size()) < options_.parallel && !ended_) {
      try {
        Element element = from_->next();
        if (element == nullptr) break;
        Slot& slot = ready_.emplace_back();
        slot.value = std::move(element);
        slot.index = index_++;
      } catch (...) {
        ended_ = true;
        Slot& slot = ready_.emplace_back();
        slot.error = std::current_exception();
        slot.is_ours = false;
      }
    }
    constexpr double kAnyTime = 1e6;  // us: the cost of f is unknown, and one element is a chunk
    parallel_for(static_cast<int64_t>(ready_.size()), kAnyTime,
                 [this](int64_t i) { run(ready_[static_cast<std::size_t>(i)]); });
  }

  void run(Slot& slot) const {
    if (slot.error != nullptr) return;
    constexpr uint64_t kMapStream = 0x6D61'7000;  // apart from shuffles of the same seed
    const PhiloxKey key =
        fold_in(fold_in({options_.seed, kMapStream}, static_cast<uint64_t>(walk_.pass)),
                static_cast<uint64_t>(slot.index));
    const SeedScope seed{Generator(key.seed, key.stream)};
    const PhaseScope phase(walk_.phase);
    try {
      slot.value = for_element("map", slot.index, [&] { return f_(std::move(slot.value)); });
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  void note_skipped(const std::exception_ptr& failure) const {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (may_pass(error.code())) throw;
      walk_.log->add(error.what());
    }
  }

  std::unique_ptr<Cursor> from_;
  Make f_;
  MapOptions options_;
  Walk walk_;
  std::deque<Slot> ready_;
  int64_t index_ = 0;
  bool ended_ = false;
};

class FilterCursor final : public Cursor {
 public:
  FilterCursor(std::unique_ptr<Cursor> from, const std::function<bool(const Element&)>& keep)
      : from_(std::move(from)), keep_(keep) {}
  Element next() override {
    for (;;) {
      Element element = from_->next();
      if (element == nullptr) return nullptr;
      if (for_element("filter", index_++, [&] { return keep_(element); })) return element;
    }
  }

 private:
  std::unique_ptr<Cursor> from_;
  std::function<bool(const Element&)> keep_;
  int64_t index_ = 0;
};

class PrefetchCursor final : public Cursor {
 public:
  PrefetchCursor(std::unique_ptr<Cursor> from, int64_t n) : from_(std::move(from)), n_(n) {}
  Element next() override {
    if (ended_) return nullptr;
    if (queue_ == nullptr) {
      queue_ = std::make_unique<PrefetchQueue>([this] { return from_->next(); },
                                               static_cast<std::size_t>(n_));
    }
    Element element = queue_->take();
    ended_ = element == nullptr;
    return element;
  }
  int64_t skip(int64_t n) override { return queue_ == nullptr ? from_->skip(n) : Cursor::skip(n); }

 private:
  std::unique_ptr<Cursor> from_;
  int64_t n_;
  bool ended_ = false;
  std::unique_ptr<PrefetchQueue> queue_;  // last: its thread ends before the members that it reads
};

struct CacheState {
  std::mutex mutex;
  std::shared_ptr<const std::vector<Element>> elements;  // null until a walk has ended
};

class CacheCursor final : public Cursor {
 public:
  using Copy = std::function<Element(const Element&)>;
  CacheCursor(std::unique_ptr<Cursor> from, std::shared_ptr<CacheState> state, const Copy& copy)
      : from_(std::move(from)), state_(std::move(state)), copy_(copy) {}
  Element next() override {
    Element element = from_->next();
    if (element != nullptr) {
      made_.push_back(copy_(element));
      return element;
    }
    const std::lock_guard lock(state_->mutex);
    if (state_->elements == nullptr) {
      state_->elements = std::make_shared<const std::vector<Element>>(std::move(made_));
    }
    return nullptr;
  }

 private:
  std::unique_ptr<Cursor> from_;
  std::shared_ptr<CacheState> state_;
  Copy copy_;
  std::vector<Element> made_;
};

class InterleaveCursor final : public Cursor {
 public:
  using Open = std::function<StagePtr(Element)>;
  InterleaveCursor(std::unique_ptr<Cursor> from, const Open& open, int64_t cycle, const Walk& walk)
      : from_(std::move(from)), open_(open), cycle_(cycle), walk_(walk) {}

  Element next() override {
    while (fill()) {
      Element element = inner_[turn_]->next();
      if (element != nullptr) {
        turn_ = (turn_ + 1) % static_cast<std::size_t>(cycle_);
        return element;
      }
      inner_[turn_].reset();
    }
    return nullptr;
  }

  int64_t skip(int64_t n) override {
    if (cycle_ > 1) return Cursor::skip(n);
    int64_t done = 0;
    while (done < n && fill()) {
      done += inner_[0]->skip(n - done);
      if (done < n) inner_[0].reset();
    }
    return done;
  }

 private:
  // Puts a cursor at this turn; false when all has ended.
  bool fill() {
    inner_.resize(static_cast<std::size_t>(cycle_));
    for (int64_t tried = 0; tried < cycle_; ++tried) {
      if (inner_[turn_] != nullptr) return true;
      if (Element element = from_->next(); element != nullptr) {
        inner_[turn_] = for_element("interleave", index_++, [&] {
                          return open_(std::move(element));
                        })->open(walk_);
        return true;
      }
      turn_ = (turn_ + 1) % static_cast<std::size_t>(cycle_);
    }
    return false;
  }

  std::unique_ptr<Cursor> from_;
  Open open_;
  int64_t cycle_, index_ = 0;
  Walk walk_;
  std::vector<std::unique_ptr<Cursor>> inner_;
  std::size_t turn_ = 0;
};

}  // namespace

StagePtr indexed_stage(int64_t size, std::function<Element(int64_t)> at, std::string text) {
  return make_stage({}, size, std::move(text),
                    [size, at = std::move(at)](const auto&, const Walk&) {
                      return std::make_unique<IndexedCursor>(size, at);
                    });
}

StagePtr generated_stage(std::function<std::function<Element()>()> open, std::string text) {
  return make_stage({}, kUnknownSize, std::move(text),
                    [open = std::move(open)](const auto&, const Walk&) {
                      return std::make_unique<GeneratedCursor>(open());
                    });
}

StagePtr source_stage(std::function<std::unique_ptr<Cursor>()> open, std::string text) {
  return make_stage({}, kUnknownSize, std::move(text),
                    [open = std::move(open)](const auto&, const Walk&) { return open(); });
}

StagePtr map_stage(StagePtr from, Make f, MapOptions options) {
  const int64_t size = options.on_error == OnError::kSkip ? kUnknownSize : from->size();
  const char* text = options.on_error == OnError::kSkip ? "map(skip bad)" : "map";
  return make_stage({std::move(from)}, size, text,
                    [f = std::move(f), options](const auto& before, const Walk& walk) {
                      return std::make_unique<MapCursor>(before[0]->open(walk), f, options, walk);
                    });
}

StagePtr filter_stage(StagePtr from, std::function<bool(const Element&)> keep) {
  return make_stage({std::move(from)}, kUnknownSize, "filter",
                    [keep = std::move(keep)](const auto& before, const Walk& walk) {
                      return std::make_unique<FilterCursor>(before[0]->open(walk), keep);
                    });
}

StagePtr prefetch_stage(StagePtr from, int64_t n) {
  // Changes no element, so the text is the text of the previous stage.
  class PrefetchStage final : public Stage {
   public:
    PrefetchStage(StagePtr before, int64_t count) : from_(std::move(before)), n_(count) {}
    std::unique_ptr<Cursor> open(const Walk& walk) const override {
      return std::make_unique<PrefetchCursor>(from_->open(walk), n_);
    }
    int64_t size() const override { return from_->size(); }
    std::string text() const override { return from_->text(); }

   private:
    StagePtr from_;
    int64_t n_;
  };
  if (n == 0) return from;
  return std::make_shared<PrefetchStage>(std::move(from), n);
}

StagePtr cache_stage(StagePtr from, std::function<Element(const Element&)> copy) {
  const int64_t size = from->size();
  return make_stage({std::move(from)}, size, "cache",
                    [copy = std::move(copy), state = std::make_shared<CacheState>()](
                        const auto& before, const Walk& walk) -> std::unique_ptr<Cursor> {
                      const auto kept = [&] {
                        const std::lock_guard lock(state->mutex);
                        return state->elements;
                      }();
                      if (kept != nullptr) {
                        return std::make_unique<IndexedCursor>(
                            static_cast<int64_t>(kept->size()), [kept, copy](int64_t i) {
                              return copy((*kept)[static_cast<std::size_t>(i)]);
                            });
                      }
                      return std::make_unique<CacheCursor>(before[0]->open(walk), state, copy);
                    });
}

StagePtr interleave_stage(StagePtr from, std::function<StagePtr(Element)> open, int64_t cycle) {
  return make_stage({std::move(from)}, kUnknownSize, fmt::format("interleave({})", cycle),
                    [open = std::move(open), cycle](const auto& before, const Walk& walk) {
                      return std::make_unique<InterleaveCursor>(before[0]->open(walk), open, cycle,
                                                                walk);
                    });
}

}  // namespace etude::data::internal
