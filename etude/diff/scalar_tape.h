// SPDX-License-Identifier: Apache-2.0
// The tape of active scalars (active.h): statements, each the partial derivatives of one number by
// those it was computed from. Used by active.h and scalar_reverse.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A call on a tape that its own function goes back over. `cotangents` are those of all slots.
// threads: reverse() const may run on several at once.
template <class T>
class ScalarNote {
 public:
  ScalarNote() = default;
  ScalarNote(const ScalarNote&) = delete;
  ScalarNote& operator=(const ScalarNote&) = delete;
  virtual ~ScalarNote() = default;
  virtual void reverse(std::vector<T>& cotangents) const = 0;
};

// One operand of a statement: its slot and the partial derivative by it.
template <class T>
struct ScalarTerm {
  T partial;
  std::uint32_t operand;
};

// Statements are numbered in order, after the inputs; the number is the slot of the result. A
// statement is one term or more, of which the last one is marked; slot 0 stands for what does not
// move. Storage is chunks that a thread keeps for its next tape, so that a long tape is never
// copied and repeated gradients take no new memory.
//
// Calls are joined to one statement as expression templates would, but while they run: where the
// last statement's result is an operand that nobody else holds (Active knows), the call extends
// that statement instead of adding one. A sum of products over a loop becomes one statement.
//
// threads: recorded by one thread; reverse() const may run on several at once.
template <class T>
class ScalarTape {
 public:
  static constexpr std::size_t kMostAtOnce = 4;

  // The innermost tape that this thread records on; null: none.
  static ScalarTape*& current() {
    thread_local constinit ScalarTape* tape = nullptr;
    return tape;
  }

  ScalarTape() : id_(next_id()) {}
  ScalarTape(ScalarTape&& other) noexcept
      : chunks_(std::exchange(other.chunks_, {})),
        notes_(std::exchange(other.notes_, {})),
        next_(std::exchange(other.next_, nullptr)),
        end_(std::exchange(other.end_, nullptr)),
        size_(std::exchange(other.size_, 1)),
        id_(std::exchange(other.id_, 0)) {}
  ScalarTape& operator=(ScalarTape&&) = delete;
  ~ScalarTape() {
    std::vector<Chunk>* kept = spare();
    while (kept != nullptr && !chunks_.empty() && kept->size() < kMostSpare) {
      kept->push_back(std::move(chunks_.back().terms));
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
  // Slots so far, with slot 0.
  std::size_t size() const { return size_; }

  // The next slot, for a number that was not computed from others on this tape.
  std::uint32_t append_input() {
    if (next_ != nullptr) return append(T(0), 0);
    if (size_ == kMostSlots) throw_full();
    return size_++;
  }
  // A statement of one or two terms. throws: kResourceExhausted for more than 2^31 slots.
  std::uint32_t append(const T& p, std::uint32_t s) {
    require_room();
    last_ = next_;
    add_term(p, s | kLast);
    return size_++;
  }
  std::uint32_t append(const T& p0, std::uint32_t s0, const T& p1, std::uint32_t s1) {
    require_room();
    last_ = next_;
    add_term(p0, s0);
    add_term(p1, s1 | kLast);
    return size_++;
  }

  // A statement of up to kMostAtOnce terms.
  std::uint32_t append(const T* partials, const std::uint32_t* operands, std::size_t count) {
    require_room();
    last_ = next_;
    for (std::size_t i = 0; i < count; ++i) add_term(partials[i], operands[i]);
    next_[-1].operand |= kLast;
    return size_++;
  }

  // The call of slot s with partial p, where the caller alone holds s: joined if it is the last.
  std::uint32_t join(const T& p, std::uint32_t s) {
    return is_open(s) && scale_last(p) ? s : append(p, s);
  }
  // The call of two slots, of which the caller alone holds those that are `owned`.
  [[gnu::always_inline]] std::uint32_t join(const T& p0, std::uint32_t s0, bool owned0, const T& p1,
                                            std::uint32_t s1, bool owned1) {
    if (owned1 && is_open(s1)) {
      if (owned0 && s0 + 1 == s1 && s0 > sealed_) return merge(p0, s0, p1);
      return extend(p1, s1, p0, s0);
    }
    if (owned0 && is_open(s0)) {
      if (owned1 && s1 + 1 == s0 && s1 > sealed_) return merge(p1, s1, p0);
      return extend(p0, s0, p1, s1);
    }
    return append(p0, s0, p1, s1);
  }
  // The result of statement s has more holders than one from now on.
  void seal(std::uint32_t s) {
    if (s > sealed_) sealed_ = s;
  }

  // Goes back over `note` after all statements that come, and before those that are there.
  void append_note(std::unique_ptr<const ScalarNote<T>> note) {
    require_room();
    seal(size_ - 1);
    notes_.push_back({chunks_.size() - 1, next_, size_, std::move(note)});
  }

  // Turns the cotangents of results, by slot, into those of all slots. What nothing arrives at is
  // passed over, so that no infinite partial meets a zero.
  void reverse(std::vector<T>& cotangents) const {
    if (chunks_.empty()) return;
    std::size_t chunk = chunks_.size() - 1;
    const Term* at = next_;
    std::uint32_t slot = size_;
    for (std::size_t n = notes_.size(); n-- > 0;) {
      reverse_until(notes_[n].chunk, notes_[n].at, chunk, at, slot, cotangents);
      notes_[n].note->reverse(cotangents);
      chunk = notes_[n].chunk;
      at = notes_[n].at;
      slot = notes_[n].slot;
    }
    reverse_until(0, begin_of(0), chunk, at, slot, cotangents);
  }

 private:
  static constexpr std::size_t kChunk = 4096;      // terms: 64 KiB with double
  static constexpr std::size_t kMostSpare = 4096;  // chunks: 256 MiB with double
  static constexpr std::uint32_t kLast = 0x80000000u, kMostSlots = kLast - 1;
  // A call is joined by scaling its operand's terms, which many terms do not pay for.
  static constexpr std::ptrdiff_t kMostScaled = 8;

  using Term = ScalarTerm<T>;
  using Chunk =
      std::unique_ptr<Term[]>;  // the first term is no term, but marked as the last of one
  struct Filled {
    Chunk terms;
    Term* end;  // once another chunk follows
  };
  struct Note {
    std::size_t chunk;
    const Term* at;
    std::uint32_t slot;
    std::unique_ptr<const ScalarNote<T>> note;
  };

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
  // Of all tapes of the process, below 2^31; 0 is none.
  static std::uint32_t next_id() {
    static constinit std::atomic<std::uint32_t> last = 0;
    std::uint32_t id = 0;
    while (id == 0) id = (last.fetch_add(1, std::memory_order_relaxed) + 1) & 0x7fffffffu;
    return id;
  }

  [[noreturn, gnu::noinline]] static void throw_full() {
    throw Error(ErrorCode::kResourceExhausted,
                "a tape of scalars holds 2^31 numbers at most. Differentiate parts of the program "
                "by themselves, or write a derivative for its inner loop");
  }
  // Room for a statement of kMostAtOnce terms.
  void require_room() {
    if (end_ - next_ < static_cast<std::ptrdiff_t>(kMostAtOnce)) [[unlikely]]
      grow();
  }
  void add_term(const T& p, std::uint32_t operand) {
    next_->partial = p;
    next_->operand = operand;
    ++next_;
  }
  [[gnu::noinline]] void grow() {
    if (size_ > kMostSlots - kChunk) throw_full();
    if (!chunks_.empty()) chunks_.back().end = next_;
    std::vector<Chunk>* kept = spare();
    if (kept == nullptr || kept->empty()) {
      chunks_.push_back({Chunk(new Term[kChunk]), nullptr});
    } else {
      chunks_.push_back({std::move(kept->back()), nullptr});
      kept->pop_back();
    }
    next_ = chunks_.back().terms.get();
    end_ = next_ + kChunk;
    add_term(T(0), kLast);
    first_ = next_;
  }
  const Term* begin_of(std::size_t chunk) const { return chunks_[chunk].terms.get() + 1; }

  // Whether s is the slot of the last statement, and that may grow.
  bool is_open(std::uint32_t s) const { return s + 1 == size_ && s > sealed_; }
  // No term meets an infinite partial where nothing passes.
  static T product(const T& partial, const T& by) {
    using scalar_math::is_exact_zero;
    return is_exact_zero(by) ? T(0) : T(partial * by);
  }
  // The begin of a statement from its end; null if it is long.
  [[gnu::noinline]] static Term* begin_before(Term* end) {
    Term* begin = end - 1;
    while ((begin[-1].operand & kLast) == 0) {
      if (end - begin == kMostScaled) return nullptr;
      --begin;
    }
    return begin;
  }
  // Multiplies the last statement if it is short, and says whether it was.
  bool scale_last(const T& by) {
    using scalar_math::is_exact_one;
    if (is_exact_one(by)) return true;
    if (last_ == nullptr) [[unlikely]]
      last_ = begin_before(next_);
    if (last_ == nullptr || next_ - last_ > kMostScaled) return false;
    Term* t = next_ - 1;
    t->partial = product(t->partial, by);
    while (t != last_) [[unlikely]] {
        --t;
        t->partial = product(t->partial, by);
      }
    return true;
  }
  // The last statement, of slot s, times p, and a term with slot `other`.
  std::uint32_t extend(const T& p, std::uint32_t s, const T& p_other, std::uint32_t other) {
    if (next_ == end_ || !scale_last(p)) return append(p, s, p_other, other);
    next_[-1].operand &= ~kLast;
    add_term(p_other, other | kLast);
    return s;
  }
  // The last two statements, of which the first has slot s, as one.
  std::uint32_t merge(const T& p_first, std::uint32_t s, const T& p_last) {
    using scalar_math::is_exact_one;
    Term* end = last_;  // of the first
    if (end == nullptr || end == first_ || !scale_last(p_last)) {
      return append(p_first, s, p_last, s + 1);
    }
    if (!is_exact_one(p_first)) {
      Term* begin = begin_before(end);
      if (begin == nullptr) return append(p_first, s, T(1), s + 1);
      for (Term* t = begin; t != end; ++t) t->partial = product(t->partial, p_first);
    }
    end[-1].operand &= ~kLast;
    last_ = nullptr;
    --size_;
    return s;
  }

  // Back from `at` in a chunk to `begin` in an earlier one or the same; `slot` is that after `at`.
  void reverse_until(std::size_t begin_chunk, const Term* begin, std::size_t chunk, const Term* at,
                     std::uint32_t slot, std::vector<T>& cotangents) const {
    for (; chunk > begin_chunk; --chunk) {
      slot = reverse_chunk(begin_of(chunk), at, slot, cotangents);
      at = chunks_[chunk - 1].end;
    }
    reverse_chunk(begin, at, slot, cotangents);
  }
  static std::uint32_t reverse_chunk(const Term* begin, const Term* at, std::uint32_t slot,
                                     std::vector<T>& cotangents) {
    using scalar_math::is_exact_zero;
    while (at != begin) {
      const T arrived = cotangents[--slot];
      --at;
      if (is_exact_zero(arrived)) {
        while ((at[-1].operand & kLast) == 0) --at;
        continue;
      }
      cotangents[at->operand & ~kLast] += at->partial * arrived;
      while ((at[-1].operand & kLast) == 0) {
        --at;
        cotangents[at->operand] += at->partial * arrived;
      }
    }
    // g++ 12 at -O2 takes this function for one without effects where T is a class, and drops the
    // call; a barrier is an effect.
    asm volatile("" ::: "memory");
    return slot;
  }

  std::vector<Filled> chunks_;
  std::vector<Note> notes_;
  Term* next_ = nullptr;
  Term* end_ = nullptr;
  Term* first_ = nullptr;  // of the open chunk
  Term* last_ = nullptr;   // the last statement; null: to be found from its end
  std::uint32_t size_ = 1, sealed_ = 0;
  std::uint32_t id_ = 0;
  const ScalarTape* outer_ = nullptr;
};

}  // namespace internal
}  // namespace etude
