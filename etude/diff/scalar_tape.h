// SPDX-License-Identifier: Apache-2.0
// The tape of active scalars (active.h): per recorded call its operands and the partial derivatives
// of the result by them. Used by scalar_gradient.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A call of one or two operands; slot 0 stands for what does not move.
template <class T>
struct ScalarCall {
  T partial[2];
  std::uint32_t operand[2];
};

// Calls are numbered in order; the number is the slot of the result. Storage is chunks that a
// thread keeps for its next tape, so that a long tape is never copied and repeated gradients take
// no new memory.
//
// threads: recorded by one thread; reverse() const may run on several at once.
template <class T>
class ScalarTape {
 public:
  // The innermost tape that this thread records on; null: none.
  static ScalarTape*& current() {
    thread_local constinit ScalarTape* tape = nullptr;
    return tape;
  }

  ScalarTape() : id_(next_id()) { append(T(0), 0, T(0), 0); }
  ScalarTape(ScalarTape&& other) noexcept
      : chunks_(std::exchange(other.chunks_, {})),
        next_(std::exchange(other.next_, nullptr)),
        end_(std::exchange(other.end_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        id_(std::exchange(other.id_, 0)) {}
  ScalarTape& operator=(ScalarTape&&) = delete;
  ~ScalarTape() {
    std::vector<Chunk>* kept = spare();
    while (kept != nullptr && !chunks_.empty() && kept->size() < kMostSpare) {
      kept->push_back(std::move(chunks_.back()));
      chunks_.pop_back();
    }
  }

  std::uint32_t id() const { return id_; }
  // The tape that this thread records on around this one.
  void set_outer(const ScalarTape* outer) { outer_ = outer; }
  // A number of a tape that has ended is plain; one of an outer tape would be lost.
  // throws: kInvalidArgument if tape number `id` is around this one.
  [[gnu::noinline]] void require_ended(std::uint32_t id) const {
    for (const ScalarTape* tape = outer_; tape != nullptr; tape = tape->outer_) {
      if (tape->id_ != id) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "gradient: a number of an outer derivative is used in an inner one whose own "
                  "argument is plain. Make the inner argument from the outer one: "
                  "decltype(x)(1.0) for 1.0");
    }
  }
  std::size_t size() const { return size_; }

  // throws: kResourceExhausted for more than 2^32 calls.
  std::uint32_t append(const T& p0, std::uint32_t s0, const T& p1, std::uint32_t s1) {
    if (next_ == end_) [[unlikely]]
      grow();
    next_->partial[0] = p0;
    next_->partial[1] = p1;
    next_->operand[0] = s0;
    next_->operand[1] = s1;
    ++next_;
    return size_++;
  }
  std::uint32_t append_input() { return append(T(0), 0, T(0), 0); }

  // Turns the cotangents of results, by slot, into those of all slots. What nothing arrives at is
  // passed over, so that no infinite partial meets a zero.
  void reverse(std::vector<T>& cotangents) const {
    using scalar_math::is_exact_zero;
    for (std::size_t c = chunks_.size(); c-- > 0;) {
      const ScalarCall<T>* calls = chunks_[c].get();
      const std::size_t base = c * kChunk;
      for (std::size_t i = std::min(kChunk, size_ - base); i-- > 0;) {
        const T arrived = cotangents[base + i];
        if (is_exact_zero(arrived)) continue;
        const ScalarCall<T>& call = calls[i];
        cotangents[call.operand[0]] += call.partial[0] * arrived;
        cotangents[call.operand[1]] += call.partial[1] * arrived;
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 2048;      // calls: 48 KiB of double
  static constexpr std::size_t kMostSpare = 4096;  // chunks: 192 MiB
  using Chunk = std::unique_ptr<ScalarCall<T>[]>;

  // What this thread keeps; null once it ends, when a tape may still be freed.
  static std::vector<Chunk>* spare() {
    thread_local constinit bool ended = false;
    struct Kept {
      std::vector<Chunk> chunks;
      ~Kept() { ended = true; }
    };
    if (ended) return nullptr;
    thread_local Kept kept;
    return &kept.chunks;
  }
  // Of all tapes of the process; 0 is none.
  static std::uint32_t next_id() {
    static constinit std::atomic<std::uint32_t> last = 0;
    std::uint32_t id = 0;
    while (id == 0) id = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return id;
  }

  [[gnu::noinline]] void grow() {
    if (size_ > std::numeric_limits<std::uint32_t>::max() - kChunk) {
      throw Error(ErrorCode::kResourceExhausted,
                  "a tape of scalars holds 2^32 calls at most. Differentiate parts of the program "
                  "by themselves, or write a derivative for its inner loop");
    }
    std::vector<Chunk>* kept = spare();
    if (kept == nullptr || kept->empty()) {
      chunks_.push_back(Chunk(new ScalarCall<T>[kChunk]));
    } else {
      chunks_.push_back(std::move(kept->back()));
      kept->pop_back();
    }
    next_ = chunks_.back().get();
    end_ = next_ + kChunk;
  }

  std::vector<Chunk> chunks_;
  ScalarCall<T>* next_ = nullptr;
  ScalarCall<T>* end_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t id_ = 0;
  const ScalarTape* outer_ = nullptr;
};

}  // namespace internal
}  // namespace etude
