// SPDX-License-Identifier: Apache-2.0
// Stages that decide which elements come, in which order and in which groups: shuffle, batches and
// buckets, repeat, take, skip, zip, concatenate, shard.
#include <map>

#include "etude/base/philox.h"
#include "etude/data/pipeline_stages.h"

namespace etude::data::internal {
namespace {

// Keeps a buffer of elements and returns a random element of it; the next element takes its place.
// The pick of element i is a function of seed, pass and i, so the order can be followed without the
// elements: only elements that stay in the buffer are made when a walk is resumed.
class ShuffleCursor final : public Cursor {
 public:
  ShuffleCursor(std::unique_ptr<Cursor> from, int64_t size, int64_t buffer, uint64_t seed,
                int64_t pass)
      : from_(std::move(from)),
        size_(size),
        buffer_(static_cast<std::size_t>(buffer)),
        key_{seed, static_cast<uint64_t>(pass)} {}

  Element next() override {
    while (slots_.size() < buffer_ && !ended_) {
      Element element = from_->next();
      if (element == nullptr) {
        ended_ = true;
      } else {
        slots_.push_back({read_++, std::move(element)});
      }
    }
    if (slots_.empty()) return nullptr;
    return take().element;
  }

  int64_t skip(int64_t n) override {
    if (!is_finite(size_)) return Cursor::skip(n);
    int64_t read = read_;  // elements of the previous stage that will have been read
    const auto fill = [&] {
      while (slots_.size() < buffer_ && read < size_) slots_.push_back({read++, nullptr});
    };
    int64_t done = 0;
    for (; done < n; ++done) {
      fill();
      if (slots_.empty()) break;
      take();
    }
    make_missing(read);
    return done;
  }

 private:
  struct Slot {
    int64_t index;
    Element element;
  };

  Slot take() {
    const auto words = philox(key_, static_cast<uint64_t>(given_++));
    const uint64_t word = uint64_t{words[0]} << 32 | words[1];
    // The high product has a bias below n / 2^64.
    const auto pick =
        static_cast<std::size_t>((static_cast<unsigned __int128>(word) * slots_.size()) >> 64);
    Slot slot = std::move(slots_[pick]);
    if (pick + 1 != slots_.size()) slots_[pick] = std::move(slots_.back());
    slots_.pop_back();
    return slot;
  }

  // Makes the elements of the buffer that were passed over, and goes to `read`.
  void make_missing(int64_t read) {
    std::vector<Slot*> missing;
    for (Slot& slot : slots_) {
      if (slot.element == nullptr) missing.push_back(&slot);
    }
    std::sort(missing.begin(), missing.end(),
              [](const Slot* a, const Slot* b) { return a->index < b->index; });
    for (Slot* slot : missing) {
      from_->skip(slot->index - read_);
      slot->element = from_->next();
      ETUDE_CHECK(slot->element != nullptr, "a stage of {} elements ended at {}", size_,
                  slot->index);
      read_ = slot->index + 1;
    }
    from_->skip(read - read_);
    read_ = read;
  }

  std::unique_ptr<Cursor> from_;
  int64_t size_;
  std::size_t buffer_;
  PhiloxKey key_;
  std::vector<Slot> slots_;
  int64_t read_ = 0, given_ = 0;
  bool ended_ = false;
};

class GroupCursor final : public Cursor {
 public:
  GroupCursor(std::unique_ptr<Cursor> from, int64_t n, bool drop, const Join& join)
      : from_(std::move(from)), n_(n), drop_(drop), join_(join) {}
  Element next() override {
    if (ended_) return nullptr;
    std::vector<Element> group;
    while (static_cast<int64_t>(group.size()) < n_) {
      Element element = from_->next();
      if (element == nullptr) break;
      group.push_back(std::move(element));
    }
    ended_ = static_cast<int64_t>(group.size()) < n_;
    if (group.empty() || (ended_ && drop_)) return nullptr;
    return for_element("batch", index_++, [&] { return join_(std::move(group)); });
  }
  int64_t skip(int64_t n) override {
    if (ended_) return 0;
    int64_t wanted = 0;
    if (__builtin_mul_overflow(n, n_, &wanted)) wanted = kEndless;
    const int64_t read = from_->skip(wanted);
    ended_ = read < wanted;
    const int64_t done = read / n_ + (read % n_ != 0 && !drop_);
    index_ += done;
    return done;
  }

 private:
  std::unique_ptr<Cursor> from_;
  int64_t n_, index_ = 0;
  bool drop_, ended_ = false;
  Join join_;
};

class BucketCursor final : public Cursor {
 public:
  struct Rule {
    std::function<int64_t(const Element&)> size;
    std::vector<int64_t> bounds, batches;
    bool drop;
    Join join;
  };
  BucketCursor(std::unique_ptr<Cursor> from, std::shared_ptr<const Rule> rule)
      : from_(std::move(from)), rule_(std::move(rule)), buckets_(rule_->bounds.size() + 1) {}

  Element next() override {
    while (!ended_) {
      Element element = from_->next();
      if (element == nullptr) {
        ended_ = true;
        break;
      }
      const int64_t size = for_element("buckets", read_++, [&] { return rule_->size(element); });
      const auto& bounds = rule_->bounds;
      const auto at = static_cast<std::size_t>(
          std::lower_bound(bounds.begin(), bounds.end(), size) - bounds.begin());
      buckets_[at].push_back(std::move(element));
      if (static_cast<int64_t>(buckets_[at].size()) == rule_->batches[at]) return give(at);
    }
    for (std::size_t at = rule_->drop ? 0 : buckets_.size(); at-- > 0;) {
      if (!buckets_[at].empty()) return give(at);
    }
    return nullptr;
  }

 private:
  Element give(std::size_t at) {
    std::vector<Element> group = std::move(buckets_[at]);
    buckets_[at].clear();
    return for_element("batch", index_++, [&] { return rule_->join(std::move(group)); });
  }

  std::unique_ptr<Cursor> from_;
  std::shared_ptr<const Rule> rule_;
  std::vector<std::vector<Element>> buckets_;
  int64_t read_ = 0, index_ = 0;
  bool ended_ = false;
};

class RepeatCursor final : public Cursor {
 public:
  RepeatCursor(StagePtr from, int64_t times, Walk walk)
      : from_(std::move(from)), times_(times), walk_(std::move(walk)), first_pass_(walk_.pass) {
    if (times_ != kEndless) first_pass_ *= times_;
  }

  Element next() override {
    while (open()) {
      Element element = cursor_->next();
      if (element != nullptr) {
        ++at_;
        return element;
      }
      if (!end_epoch()) return nullptr;
    }
    return nullptr;
  }

  int64_t skip(int64_t n) override {
    int64_t done = 0;
    const int64_t size = from_->size();
    if (is_finite(size) && size > 0 && n > size - at_ && epoch_ < times_) {
      const int64_t epochs = std::min((n - (size - at_)) / size, times_ - epoch_ - 1);
      done = size - at_ + epochs * size;
      epoch_ += epochs + 1;
      cursor_.reset();
      at_ = 0;
    }
    while (done < n && open()) {
      const int64_t more = cursor_->skip(n - done);
      done += more;
      at_ += more;
      if (done < n && !end_epoch()) break;
    }
    return done;
  }

 private:
  // False after the last epoch.
  bool open() {
    if (epoch_ >= times_) return false;
    if (cursor_ == nullptr) {
      Walk walk = walk_;
      walk.pass = first_pass_ + epoch_;
      cursor_ = from_->open(walk);
    }
    return true;
  }
  // False after an epoch without elements: no further one would have any.
  bool end_epoch() {
    const bool goes_on = at_ > 0;
    cursor_.reset();
    ++epoch_;
    at_ = 0;
    if (!goes_on) epoch_ = times_;
    return goes_on;
  }

  StagePtr from_;
  int64_t times_;
  Walk walk_;
  int64_t first_pass_, epoch_ = 0, at_ = 0;
  std::unique_ptr<Cursor> cursor_;
};

class TakeCursor final : public Cursor {
 public:
  TakeCursor(std::unique_ptr<Cursor> from, int64_t n) : from_(std::move(from)), left_(n) {}
  Element next() override {
    if (left_ == 0) return nullptr;
    --left_;
    return from_->next();
  }
  int64_t skip(int64_t n) override {
    const int64_t done = from_->skip(std::min(n, left_));
    left_ -= done;
    return done;
  }

 private:
  std::unique_ptr<Cursor> from_;
  int64_t left_;
};

class SkipCursor final : public Cursor {
 public:
  SkipCursor(std::unique_ptr<Cursor> from, int64_t n) : from_(std::move(from)), ahead_(n) {}
  Element next() override {
    go();
    return from_->next();
  }
  int64_t skip(int64_t n) override {
    go();
    return from_->skip(n);
  }

 private:
  void go() {
    if (ahead_ > 0) from_->skip(std::exchange(ahead_, 0));
  }
  std::unique_ptr<Cursor> from_;
  int64_t ahead_;
};

class ZipCursor final : public Cursor {
 public:
  ZipCursor(std::vector<std::unique_ptr<Cursor>> from, const Join& join)
      : from_(std::move(from)), join_(join) {}
  Element next() override {
    std::vector<Element> parts;
    for (const auto& cursor : from_) {
      if (ended_) return nullptr;
      parts.push_back(cursor->next());
      ended_ = parts.back() == nullptr;
    }
    return ended_ ? nullptr : join_(std::move(parts));
  }
  int64_t skip(int64_t n) override {
    for (const auto& cursor : from_) {
      const int64_t done = cursor->skip(n);
      ended_ = ended_ || done < n;
      n = done;
    }
    return n;
  }

 private:
  std::vector<std::unique_ptr<Cursor>> from_;
  Join join_;
  bool ended_ = false;
};

class ConcatenateCursor final : public Cursor {
 public:
  ConcatenateCursor(std::vector<StagePtr> from, const Walk& walk)
      : from_(std::move(from)), walk_(walk) {}
  Element next() override {
    while (open()) {
      if (Element element = cursor_->next(); element != nullptr) return element;
      leave();
    }
    return nullptr;
  }
  int64_t skip(int64_t n) override {
    int64_t done = 0;
    while (done < n && open()) {
      done += cursor_->skip(n - done);
      if (done < n) leave();
    }
    return done;
  }

 private:
  bool open() {
    if (at_ == from_.size()) return false;
    if (cursor_ == nullptr) cursor_ = from_[at_]->open(walk_);
    return true;
  }
  void leave() {
    cursor_.reset();
    ++at_;
  }

  std::vector<StagePtr> from_;
  Walk walk_;
  std::size_t at_ = 0;
  std::unique_ptr<Cursor> cursor_;
};

class ShardCursor final : public Cursor {
 public:
  ShardCursor(std::unique_ptr<Cursor> from, int64_t rank, int64_t count)
      : from_(std::move(from)), count_(count), ahead_(rank) {}
  Element next() override {
    if (ahead_ > 0 && from_->skip(ahead_) < ahead_) return nullptr;
    ahead_ = count_ - 1;
    return from_->next();
  }
  int64_t skip(int64_t n) override {
    if (n == 0) return 0;
    int64_t wanted = 0;  // up to and with the n-th element of ours
    if (__builtin_mul_overflow(n - 1, count_, &wanted) ||
        __builtin_add_overflow(wanted, ahead_ + 1, &wanted)) {
      wanted = kEndless;
    }
    const int64_t read = from_->skip(wanted);
    const int64_t done = read > ahead_ ? 1 + (read - ahead_ - 1) / count_ : 0;
    if (read == wanted) ahead_ = count_ - 1;
    return done;
  }

 private:
  std::unique_ptr<Cursor> from_;
  int64_t count_, ahead_;  // elements of others before the next of ours
};

int64_t times_size(int64_t size, int64_t times) {
  if (size == kUnknownSize || size == 0) return size;
  int64_t product = 0;
  return __builtin_mul_overflow(size, times, &product) ? kEndless : product;
}

}  // namespace

StagePtr shuffle_stage(StagePtr from, int64_t buffer, uint64_t seed) {
  const int64_t size = from->size();
  return make_stage({std::move(from)}, size, fmt::format("shuffle({}, seed {})", buffer, seed),
                    [size, buffer, seed](const auto& before, const Walk& walk) {
                      return std::make_unique<ShuffleCursor>(before[0]->open(walk), size, buffer,
                                                             seed, walk.pass);
                    });
}

StagePtr group_stage(StagePtr from, int64_t n, bool drop_remainder, Join join, std::string text) {
  int64_t size = from->size();
  if (is_finite(size)) size = size / n + (size % n != 0 && !drop_remainder);
  text += fmt::format("({}{})", n, drop_remainder ? ", drop remainder" : "");
  return make_stage(
      {std::move(from)}, size, std::move(text),
      [n, drop_remainder, join = std::move(join)](const auto& before, const Walk& walk) {
        return std::make_unique<GroupCursor>(before[0]->open(walk), n, drop_remainder, join);
      });
}

StagePtr bucket_stage(StagePtr from, std::function<int64_t(const Element&)> size,
                      std::vector<int64_t> bounds, std::vector<int64_t> batches,
                      bool drop_remainder, Join join) {
  ETUDE_REQUIRE(std::is_sorted(bounds.begin(), bounds.end()),
                "the bounds {} of buckets do not rise", fmt::join(bounds, ", "));
  ETUDE_REQUIRE(batches.size() == bounds.size() + 1,
                "{} bounds make {} buckets, but {} batch sizes are given", bounds.size(),
                bounds.size() + 1, batches.size());
  for (const int64_t n : batches) ETUDE_REQUIRE(n >= 1, "a bucket has a batch of {}", n);
  std::string text =
      fmt::format("buckets({}; {})", fmt::join(bounds, ", "), fmt::join(batches, ", "));
  auto rule = std::make_shared<const BucketCursor::Rule>(BucketCursor::Rule{
      std::move(size), std::move(bounds), std::move(batches), drop_remainder, std::move(join)});
  return make_stage({std::move(from)}, kUnknownSize, std::move(text),
                    [rule](const auto& before, const Walk& walk) {
                      return std::make_unique<BucketCursor>(before[0]->open(walk), rule);
                    });
}

StagePtr repeat_stage(StagePtr from, int64_t times) {
  const int64_t size = times_size(from->size(), times);
  const std::string text = times == kEndless ? "repeat" : fmt::format("repeat({})", times);
  return make_stage({std::move(from)}, size, text, [times](const auto& before, const Walk& walk) {
    return std::make_unique<RepeatCursor>(before[0], times, walk);
  });
}

StagePtr take_stage(StagePtr from, int64_t n) {
  const int64_t before_size = from->size();
  const int64_t size = before_size == kUnknownSize ? kUnknownSize : std::min(n, before_size);
  return make_stage({std::move(from)}, size, fmt::format("take({})", n),
                    [n](const auto& before, const Walk& walk) {
                      return std::make_unique<TakeCursor>(before[0]->open(walk), n);
                    });
}

StagePtr skip_stage(StagePtr from, int64_t n) {
  int64_t size = from->size();
  if (is_finite(size)) size = std::max<int64_t>(0, size - n);
  return make_stage({std::move(from)}, size, fmt::format("skip({})", n),
                    [n](const auto& before, const Walk& walk) {
                      return std::make_unique<SkipCursor>(before[0]->open(walk), n);
                    });
}

namespace {
std::string joined_text(std::string_view name, const std::vector<StagePtr>& from) {
  std::string text;
  for (const StagePtr& stage : from) text += (text.empty() ? "" : "; ") + stage->text();
  return fmt::format("{}[{}]", name, text);
}
}  // namespace

StagePtr zip_stage(std::vector<StagePtr> from, Join join) {
  int64_t size = kEndless;
  for (const StagePtr& stage : from) {
    if (size != kUnknownSize) {
      size = stage->size() == kUnknownSize ? kUnknownSize : std::min(size, stage->size());
    }
  }
  std::string text = joined_text("zip", from);
  return make_stage(std::move(from), size, std::move(text),
                    [join = std::move(join)](const auto& before, const Walk& walk) {
                      std::vector<std::unique_ptr<Cursor>> cursors;
                      for (const StagePtr& stage : before) cursors.push_back(stage->open(walk));
                      return std::make_unique<ZipCursor>(std::move(cursors), join);
                    });
}

StagePtr concatenate_stage(std::vector<StagePtr> from) {
  int64_t size = 0;
  for (const StagePtr& stage : from) {
    const int64_t more = stage->size();
    if (size == kUnknownSize || more == kUnknownSize) {
      size = kUnknownSize;
    } else if (__builtin_add_overflow(size, more, &size)) {
      size = kEndless;
    }
  }
  std::string text = joined_text("concatenate", from);
  return make_stage(std::move(from), size, std::move(text),
                    [](const auto& before, const Walk& walk) {
                      return std::make_unique<ConcatenateCursor>(before, walk);
                    });
}

StagePtr shard_stage(StagePtr from, int64_t rank, int64_t count) {
  ETUDE_REQUIRE(count >= 1 && rank >= 0 && rank < count,
                "shard {} of {} was requested; ranks are 0 to {}", rank, count, count - 1);
  int64_t size = from->size();
  if (is_finite(size)) size = size / count + (size % count > rank);
  return make_stage({std::move(from)}, size, fmt::format("shard({} of {})", rank, count),
                    [rank, count](const auto& before, const Walk& walk) {
                      return std::make_unique<ShardCursor>(before[0]->open(walk), rank, count);
                    });
}

StagePtr pass_stage(StagePtr from, int64_t pass) {
  const int64_t size = from->size();
  return make_stage({std::move(from)}, size, fmt::format("epoch({})", pass),
                    [pass](const auto& before, const Walk& walk) {
                      Walk later = walk;
                      later.pass += pass;
                      return before[0]->open(later);
                    });
}

}  // namespace etude::data::internal
