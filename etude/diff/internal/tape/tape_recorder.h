// SPDX-License-Identifier: Apache-2.0
// Records calls: chunks of calls, slots, and changes of the last call by its successor. Base of the
// tape (scalar_tape.h), whose reverse pass is in tape_sweep.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/diff/internal/inlining.h"
#include "etude/diff/internal/tape/kept_memory.h"
#include "etude/diff/internal/tape/slots.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A recorded call: the slot that it sets, or adds to, and the partial derivatives by one or two
// operands. Slot 0 represents constants.
template <class T>
struct ScalarCall {
  static constexpr uint32_t kAdds = 0x80000000u;  // target flag: add instead of set
  T partials[2];
  uint32_t target, operands[2];
};

// Calls in order, and slots. A call reuses the slot that an operand releases, so the number of
// slots is about the number of live numbers. A sum changes the last call instead of adding another:
// s += x * y is a single call. Storage is chunks that a thread keeps for its next tape, so a long
// tape is never copied and repeated gradients allocate nothing.
// a long tape is never copied and repeated gradients allocate nothing.
template <class T>
class TapeRecorder {
 public:
  TapeRecorder() = default;
  TapeRecorder(TapeRecorder&& other) noexcept
      : chunks_(std::exchange(other.chunks_, {})),
        writes_(std::move(other.writes_)),
        next_(std::exchange(other.next_, &nothing_ + 1)),
        end_(std::exchange(other.end_, &nothing_ + 1)),
        size_(std::exchange(other.size_, 1)),
        most_(std::exchange(other.most_, 0)) {}
  TapeRecorder& operator=(TapeRecorder&&) = delete;
  ~TapeRecorder() {
    std::vector<Chunk>* kept = spare();
    while (kept != nullptr && !chunks_.empty() && kept->size() < kMostSpare) {
      kept->push_back(std::move(chunks_.back()));
      chunks_.pop_back();
    }
    ChunkList* list = kept_by_thread<ChunkList>();
    if (list == nullptr || list->chunks.capacity() >= chunks_.capacity()) return;
    chunks_.clear();
    list->chunks = std::move(chunks_);
  }

  // The number of slots so far, including slot 0 and free slots.
  std::size_t size() const { return size_ > most_ ? size_ : most_; }
  // The number of calls so far.
  std::size_t calls() const {
    if (chunks_.empty()) return 0;
    return (chunks_.size() - 1) * (kChunk - 1) +
           static_cast<std::size_t>(next_ - begin_of(chunks_.size() - 1));
  }

  // The number of writes to a slot, if they are counted.
  SlotWrites writes(uint32_t slot) const {
    if constexpr (kChecksSlots) {
      return SlotWrites{slot < writes_.elements().size() ? writes_.elements()[slot] : 0};
    } else {
      return SlotWrites{};
    }
  }
  // If writes are counted: throws kInternal if the slot was written after the number got it.
  template <class SomePlace>
  void check_read(const SomePlace& place) const {
    if constexpr (kChecksSlots) {
      if (place.slot() != 0 && place.writes() != writes(place.slot())) throw_written(place.slot());
    }
  }

  // A slot that no call has written yet. throws: kResourceExhausted for more than 2^31 slots.
  uint32_t new_input() { return new_inputs(1); }
  // The first of `count` such consecutive slots.
  uint32_t new_inputs(std::size_t count) {
    if (most_ > size_) size_ = most_;
    if (count >= kMostSlots - size_) [[unlikely]]
      throw_full();
    return std::exchange(size_, size_ + static_cast<uint32_t>(count));
  }
  // A slot for the next call, which throws if the tape is full. A free slot may have been written.
  uint32_t new_slot() { return size_++; }

  // Records target = ... with one or two operands, which may be the target itself.
  void set(uint32_t target, const T& p, uint32_t s) { put(target, p, s, T(0), 0); }
  void set(uint32_t target, const T& p0, uint32_t s0, const T& p1, uint32_t s1) {
    put(target, p0, s0, p1, s1);
  }
  // Records target += p times s. A call of two terms reads both operands before writing, so neither
  // may be the target, which the first term changes.
  void add(uint32_t target, const T& p, uint32_t s) {
    if (next_[-1].target == (target | kAdds) && next_[-1].operands[1] == 0 && s != target) {
      fill_last(p, s);
    } else {
      put(target | kAdds, p, s, T(0), 0);
    }
  }
  void add(uint32_t target, const T& p0, uint32_t s0, const T& p1, uint32_t s1) {
    put(target | kAdds, p0, s0, p1, s1);
  }
  // Whether the last call set s; and whether it had only one operand.
  bool just_set(uint32_t s) const { return next_[-1].target == s; }
  bool just_set_from_one(uint32_t s) const {
    return next_[-1].target == s && next_[-1].operands[1] == 0;
  }
  // Adds a second operand to the last call.
  void fill_last(const T& p, uint32_t s) {
    next_[-1].partials[1] = p;
    next_[-1].operands[1] = s;
    note_write(next_[-1].target);
  }
  // Multiplies the value that the last call set.
  void scale_last(const T& by) {
    using scalar_math::strong_product;
    Call& last = next_[-1];
    last.partials[0] = strong_product(last.partials[0], by);
    if (last.operands[1] != 0) last.partials[1] = strong_product(last.partials[1], by);
    note_write(last.target);
  }
  void negate_last() {
    next_[-1].partials[0] = -next_[-1].partials[0];
    next_[-1].partials[1] = -next_[-1].partials[1];
    note_write(next_[-1].target);
  }
  // Adds the value of the last call to another slot instead. Its own slot becomes free.
  void add_last_to(uint32_t target) {
    Call& last = next_[-1];
    if (last.target + 1 == size_) {
      if (size_ > most_) most_ = size_;
      --size_;
    }
    if (next_[-2].target == (target | kAdds) && (next_[-2].operands[1] | last.operands[1]) == 0 &&
        last.operands[0] != target) {
      --next_;
      fill_last(last.partials[0], last.operands[0]);
    } else {
      last.target = target | kAdds;
      note_write(target);
    }
  }

 protected:
  using Call = ScalarCall<T>;
  static constexpr uint32_t kAdds = Call::kAdds;

  // A position between two calls.
  struct Place {
    std::size_t chunk = 0;
    const Call* at = nullptr;
  };
  Place first_place() const { return chunks_.empty() ? Place() : Place{0, begin_of(0)}; }
  Place last_place() const { return chunks_.empty() ? Place() : Place{chunks_.size() - 1, next_}; }
  // Prevents later calls from changing existing calls.
  void close() { put(0, T(0), 0, T(0), 0); }
  // Calls fn(begin, end) for each contiguous run of calls between two positions, the last run
  // first.
  template <class Fn>
  void each_run_back(const Place& from, const Place& to, const Fn& fn) const {
    std::size_t chunk = from.chunk;
    const Call* at = from.at;
    for (; chunk > to.chunk; --chunk) {
      fn(begin_of(chunk), at);
      at = chunks_[chunk - 1].get() + kChunk;
    }
    fn(to.at, at);
  }

 private:
  static constexpr std::size_t kChunk = 2048;      // calls: 64 KiB with double
  static constexpr std::size_t kMostSpare = 4096;  // chunks: 256 MiB with double
  static constexpr uint32_t kMostSlots = kAdds - kChunk;
  using Chunk = std::unique_ptr<Call[]>;  // the first call is a sentinel: it set no slot

  // The chunks that a thread keeps. Their list is reused by its next tape.
  static std::vector<Chunk>* spare() { return kept_by_thread<std::vector<Chunk>>(); }
  struct ChunkList {
    std::vector<Chunk> chunks;
  };
  const Call* begin_of(std::size_t chunk) const { return chunks_[chunk].get() + 1; }

  [[noreturn, gnu::noinline]] static void throw_full() {
    throw Error(ErrorCode::kResourceExhausted,
                "a tape of scalars holds 2^31 numbers at most. Differentiate parts of the program "
                "by themselves, or write a derivative for its inner loop");
  }
  ETUDE_INLINED void put(uint32_t target, const T& p0, uint32_t s0, const T& p1, uint32_t s1) {
    if (next_ == end_) [[unlikely]]
      grow();
    Call& call = *next_;
    call.partials[0] = p0;
    call.partials[1] = p1;
    call.target = target;
    call.operands[0] = s0;
    call.operands[1] = s1;
    ++next_;
    note_write(target);
  }
  void note_write(uint32_t target) {
    if constexpr (kChecksSlots) {
      const std::size_t slot = target & ~kAdds;
      std::vector<uint32_t>& writes = writes_.elements();
      if (slot >= writes.size()) writes.resize(slot + slot / 2 + 1);
      ++writes[slot];
    }
  }
  [[gnu::noinline]] void grow() {
    if (size_ >= kMostSlots) throw_full();
    if (chunks_.capacity() == 0) {
      if (ChunkList* list = kept_by_thread<ChunkList>()) chunks_.swap(list->chunks);
    }
    std::vector<Chunk>* kept = spare();
    if (kept == nullptr || kept->empty()) {
      chunks_.push_back(Chunk(new Call[kChunk]));
    } else {
      chunks_.push_back(std::move(kept->back()));
      kept->pop_back();
    }
    next_ = chunks_.back().get();
    end_ = next_ + kChunk;
    next_->target = 0;
    ++next_;
  }

  std::vector<Chunk> chunks_;
  struct NoCounts {};
  [[no_unique_address]] std::conditional_t<kChecksSlots, KeptVector<uint32_t, SlotWrites>,
                                           NoCounts>
      writes_;                    // by slot, of any number before
  inline static Call nothing_{};  // sentinel before the first chunk
  Call* next_ = &nothing_ + 1;
  Call* end_ = &nothing_ + 1;
  uint32_t size_ = 1, most_ = 0;
};

}  // namespace internal
}  // namespace etude
