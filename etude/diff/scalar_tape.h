// SPDX-License-Identifier: Apache-2.0
// The tape of active scalars (active.h): per recorded call the partial derivatives of the result by
// its operands. Used by active.h and scalar_reverse.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/warning.h"
#include "etude/diff/scalar_math.h"
#include "etude/diff/slots.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A Kept of this thread; null once the thread ends, when somebody may still want it.
template <class Kept>
Kept* kept_by_thread() {
  thread_local constinit bool ended = false;
  struct Holder {
    Kept kept;
    ~Holder() { ended = true; }
  };
  if (ended) return nullptr;
  thread_local Holder holder;
  return &holder.kept;
}

// A vector whose memory its thread keeps for the next one of its type and use; begins as that was
// left.
template <class E, class Use = void>
class KeptVector {
 public:
  KeptVector() {
    if (Memory* memory = kept_by_thread<Memory>()) elements_ = std::exchange(memory->elements, {});
  }
  KeptVector(KeptVector&&) noexcept = default;
  KeptVector& operator=(KeptVector&&) = delete;
  ~KeptVector() {
    Memory* memory = kept_by_thread<Memory>();
    if (memory == nullptr || elements_.capacity() > kMostKept) return;
    if (memory->elements.capacity() < elements_.capacity()) {
      memory->elements = std::move(elements_);
    }
  }
  std::vector<E>& elements() { return elements_; }
  const std::vector<E>& elements() const { return elements_; }

 private:
  struct Memory {
    std::vector<E> elements;
  };
  static constexpr std::size_t kMostKept = (std::size_t{1} << 27) / sizeof(E);  // 128 MiB
  std::vector<E> elements_;
};

// An array in such memory; its elements are what was left there.
template <class E, class Use = void>
class KeptArray {
 public:
  explicit KeptArray(std::size_t size) {
    if (memory_.elements().size() < size) memory_.elements().resize(size);
  }
  E& operator[](std::size_t i) { return memory_.elements()[i]; }
  const E& operator[](std::size_t i) const { return memory_.elements()[i]; }
  E* data() { return memory_.elements().data(); }

 private:
  KeptVector<E, Use> memory_;
};

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

template <class T>
class ScalarTape;

// What is recorded beside a tape of numbers where these go into tensors and come back: goes back
// over both. runtime/ has it.
template <class T>
class ScalarCompanion {
 public:
  ScalarCompanion() = default;
  ScalarCompanion(const ScalarCompanion&) = delete;
  ScalarCompanion& operator=(const ScalarCompanion&) = delete;
  virtual ~ScalarCompanion() = default;
  // The function has returned.
  virtual void stop() noexcept = 0;
  // What ScalarTape::reverse() does; `tape` is that beside which it stands.
  virtual void reverse(const ScalarTape<T>& tape, std::vector<T>& cotangents) const = 0;
};

// A recorded call: the slot that it sets, or adds to, and the partial derivatives of that by one or
// two operands. Slot 0 stands for what does not move.
template <class T>
struct ScalarCall {
  T partials[2];
  std::uint32_t target, operands[2];
};

// The calls of a derivative in order. A slot is a number's place among the cotangents; slots.h says
// who may write to one. A call takes over the slot of an operand that gives it up, so that there
// are about as many slots as live numbers, and a sum changes the last call instead of adding one:
// s += x * y is one. Storage is chunks that a thread keeps for its next tape, so that a long tape
// is never copied and repeated gradients take no new memory.
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
  // Its key; kNoKey: there is none. Looked at by each call, where the tape itself need not be.
  static std::uint64_t& current_key() {
    thread_local constinit std::uint64_t key = kNoKey;
    return key;
  }
  // Makes this tape the innermost one, and takes it out again wherever it is.
  void start() {
    outer_ = std::exchange(current(), this);
    tell_current(key_);
  }
  void stop() noexcept {
    ScalarTape** at = &current();
    while (*at != nullptr && *at != this) at = &(*at)->outer_;
    if (*at == nullptr) return;
    *at = std::exchange(outer_, nullptr);
    tell_current(current() != nullptr ? current()->key_ : kNoKey);
    if (companion_ != nullptr) companion_->stop();
  }

  ScalarTape() : key_(next_key()) {}
  ScalarTape(ScalarTape&& other) noexcept
      : chunks_(std::exchange(other.chunks_, {})),
        notes_(std::exchange(other.notes_, {})),
        writes_(std::move(other.writes_)),
        companion_(std::move(other.companion_)),
        next_(std::exchange(other.next_, &nothing_ + 1)),
        end_(std::exchange(other.end_, &nothing_ + 1)),
        size_(std::exchange(other.size_, 1)),
        most_(std::exchange(other.most_, 0)),
        key_(std::exchange(other.key_, 0)),
        last_end_(other.last_end_) {}
  ScalarTape& operator=(ScalarTape&&) = delete;
  ~ScalarTape() {
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

  // The key of the numbers of this tape: its number above kSlotBits.
  std::uint64_t key() const { return key_; }
  // What is recorded beside it; null: numbers alone.
  ScalarCompanion<T>* companion() const { return companion_.get(); }
  void set_companion(std::unique_ptr<ScalarCompanion<T>> companion) {
    companion_ = std::move(companion);
  }
  // Whether the tape of that key is around this one.
  bool is_around(std::uint64_t key) const {
    const ScalarTape* tape = outer_;
    while (tape != nullptr && tape->key_ != key) tape = tape->outer_;
    return tape != nullptr;
  }
  // A number of a tape that has ended is plain; one of an outer tape, or of the one that another
  // thread records on, would be lost. `tape` is that of this thread; null: none.
  // throws: kInvalidArgument, kFailedPrecondition if the tape of that key has not ended.
  [[gnu::noinline, gnu::cold]] static void require_ended(const ScalarTape* tape,
                                                         std::uint64_t key) {
    if (tape != nullptr && tape->is_around(key)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "gradient: a number of an outer derivative is used in an inner one whose own "
                  "argument is plain. Make the inner argument from the outer one: "
                  "decltype(x)(1.0) for 1.0");
    }
    thread_local constinit std::uint64_t ended = 0;  // one that is known to have
    if (ended != key && is_recorded_somewhere(key)) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "gradient: a number of a derivative that one thread takes is used on another, "
                  "where nothing records it. Take a derivative on each thread and add them up, or "
                  "pass stop_gradient(x)");
    }
    ended = key;
    if (tape != nullptr) tell_escaped();
  }
  // Whether what is in slot `from` depends on one of slots [begin, end), which are inputs.
  bool depends(std::uint32_t from, std::uint32_t begin, std::uint32_t end) const {
    if (from == 0) return false;
    // Functions of their own, and tensors, are not looked into.
    if (!notes_.empty() || companion_ != nullptr) return true;
    std::vector<bool> reached(size());
    reached[from] = true;
    const Call* at = next_;
    for (std::size_t c = chunks_.size(); c-- > 0;) {
      for (const Call* begin_at = begin_of(c); at != begin_at;) {
        --at;
        const std::uint32_t target = at->target & ~kAdds;
        if (!reached[target]) continue;
        if ((at->target & kAdds) == 0) reached[target] = false;
        reached[at->operands[0]] = reached[at->operands[1]] = true;
        reached[0] = false;
      }
      if (c > 0) at = chunks_[c - 1].get() + kChunk;
    }
    for (std::uint32_t s = begin; s < end; ++s) {
      if (reached[s]) return true;
    }
    return false;
  }
  // What ended the dependence of a number last, such as a cast to an integer; null: nothing did.
  const char* last_end() const { return last_end_; }
  void note_end(const char* by) { last_end_ = by; }
  // Slots so far, with slot 0 and those that are free again.
  std::size_t size() const { return size_ > most_ ? size_ : most_; }
  // Calls so far.
  std::size_t calls() const {
    if (chunks_.empty()) return 0;
    return (chunks_.size() - 1) * (kChunk - 1) + static_cast<std::size_t>(next_ - open_begin());
  }

  // How often a slot was written, where that is counted.
  SlotWrites writes(std::uint32_t slot) const {
    if constexpr (kChecksSlots) {
      return SlotWrites{slot < writes_.elements().size() ? writes_.elements()[slot] : 0};
    } else {
      return SlotWrites{};
    }
  }
  // Where that is counted: throws kInternal if a slot was written since a number got it.
  template <class SomePlace>
  void check_read(const SomePlace& place) const {
    if constexpr (kChecksSlots) {
      if (place.slot() != 0 && place.writes() != writes(place.slot())) throw_written(place.slot());
    }
  }

  // A slot that no call has written yet. throws: kResourceExhausted for more than 2^31 slots.
  std::uint32_t new_input() { return new_inputs(1); }
  // The first of `count` such slots in a row.
  std::uint32_t new_inputs(std::size_t count) {
    if (most_ > size_) size_ = most_;
    if (count >= kMostSlots - size_) [[unlikely]]
      throw_full();
    return std::exchange(size_, size_ + static_cast<std::uint32_t>(count));
  }
  // A slot for a call that follows, which throws; one that is free again may have been written.
  std::uint32_t new_slot() { return size_++; }

  // target = ... of one or two operands, which may be the target itself.
  void set(std::uint32_t target, const T& p, std::uint32_t s) { put(target, p, s, T(0), 0); }
  void set(std::uint32_t target, const T& p0, std::uint32_t s0, const T& p1, std::uint32_t s1) {
    put(target, p0, s0, p1, s1);
  }
  // target += p times s. A call of two terms reads both as they were, so none of them may be the
  // target, which the first term changes.
  void add(std::uint32_t target, const T& p, std::uint32_t s) {
    if (next_[-1].target == (target | kAdds) && next_[-1].operands[1] == 0 && s != target) {
      fill_last(p, s);
    } else {
      put(target | kAdds, p, s, T(0), 0);
    }
  }
  void add(std::uint32_t target, const T& p0, std::uint32_t s0, const T& p1, std::uint32_t s1) {
    put(target | kAdds, p0, s0, p1, s1);
  }
  // Whether the last call set s; from one operand alone.
  bool just_set(std::uint32_t s) const { return next_[-1].target == s; }
  bool just_set_from_one(std::uint32_t s) const {
    return next_[-1].target == s && next_[-1].operands[1] == 0;
  }
  // Gives the last call, of one operand, another one.
  void fill_last(const T& p, std::uint32_t s) {
    next_[-1].partials[1] = p;
    next_[-1].operands[1] = s;
    note_write(next_[-1].target);
  }
  // Multiplies what the last call set.
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
  // What the last call set is added to another slot instead, and its own one is free.
  void add_last_to(std::uint32_t target) {
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

  // A place between two calls.
  struct Position {
    std::size_t chunk = 0;
    const ScalarCall<T>* at = nullptr;
    std::size_t notes = 0;
  };
  Position begin() const { return chunks_.empty() ? Position() : Position{0, begin_of(0), 0}; }
  Position end() const {
    return chunks_.empty() ? Position() : Position{chunks_.size() - 1, next_, notes_.size()};
  }
  // Where it ends now; what is before is not changed any more.
  Position mark() {
    put(0, T(0), 0, T(0), 0);
    return end();
  }

  // Goes back over `note` after all calls that come, and before those that are there.
  void append_note(std::unique_ptr<const ScalarNote<T>> note) {
    const Position here = mark();
    notes_.push_back({here.chunk, here.at, std::move(note)});
  }

  // Turns the cotangents of results, by slot, into those of the inputs. What nothing arrives at is
  // passed over, and a partial that is 0 lets nothing through, infinite as it may be.
  void reverse(std::vector<T>& cotangents) const {
    if (companion_ != nullptr) {
      companion_->reverse(*this, cotangents);
    } else {
      reverse(end(), begin(), cotangents);
    }
  }
  // The same for what is between two positions.
  void reverse(Position from, const Position& to, std::vector<T>& cotangents) const {
    if (to.at == nullptr) return;
    for (std::size_t n = from.notes; n-- > to.notes;) {
      reverse_until(notes_[n].chunk, notes_[n].at, from.chunk, from.at, cotangents);
      notes_[n].note->reverse(cotangents);
      from = {notes_[n].chunk, notes_[n].at, n};
    }
    reverse_until(to.chunk, to.at, from.chunk, from.at, cotangents);
  }

 private:
  static constexpr std::size_t kChunk = 2048;      // calls: 64 KiB with double
  static constexpr std::size_t kMostSpare = 4096;  // chunks: 256 MiB with double
  static constexpr std::uint32_t kAdds = 0x80000000u, kMostSlots = kAdds - kChunk;

  using Call = ScalarCall<T>;
  using Chunk = std::unique_ptr<Call[]>;  // the first one is no call: nothing just set a slot there
  struct Note {
    std::size_t chunk;
    const Call* at;
    std::unique_ptr<const ScalarNote<T>> note;
  };

  // Chunks that a thread keeps, and an empty list for those of its next tape.
  static std::vector<Chunk>* spare() { return kept_by_thread<std::vector<Chunk>>(); }
  struct ChunkList {
    std::vector<Chunk> chunks;
  };
  // Of all tapes of the process, in turn; 0 is none.
  static std::uint64_t next_key() {
    static constinit std::atomic<std::uint64_t> last = 0;
    std::uint64_t key = 0;
    while (key == 0 || key == kNoKey || key == kMovedFrom) {
      key = (last.fetch_add(1, std::memory_order_relaxed) + 1) << kSlotBits;
    }
    return key;
  }

  // The key of the innermost tape of a thread, for other threads to see.
  class ThreadKey {
   public:
    ThreadKey() {
      const std::lock_guard lock(mutex());
      next_ = std::exchange(first(), this);
    }
    ThreadKey(const ThreadKey&) = delete;
    ThreadKey& operator=(const ThreadKey&) = delete;
    ~ThreadKey() {
      const std::lock_guard lock(mutex());
      ThreadKey** place = &first();
      while (*place != this) place = &(*place)->next_;
      *place = next_;
    }
    static std::mutex& mutex() {
      static std::mutex* made = new std::mutex;  // threads may end after static objects
      return *made;
    }
    static ThreadKey*& first() {
      static constinit ThreadKey* head = nullptr;
      return head;
    }
    const ThreadKey* next() const { return next_; }

    std::atomic<std::uint64_t> key = kNoKey;

   private:
    ThreadKey* next_ = nullptr;
  };
  // A call of its own: inlined, it makes g++ inline less of the function around, a third of whose
  // speed that was.
  [[gnu::noinline]] static void tell_current(std::uint64_t key) noexcept {
    current_key() = key;
    if (ThreadKey* mine = kept_by_thread<ThreadKey>()) {
      mine->key.store(key, std::memory_order_relaxed);
    }
  }
  static bool is_recorded_somewhere(std::uint64_t key) {
    const std::lock_guard lock(ThreadKey::mutex());
    for (const ThreadKey* t = ThreadKey::first(); t != nullptr; t = t->next()) {
      if (t->key.load(std::memory_order_relaxed) == key) return true;
    }
    return false;
  }

  static void tell_escaped() {
    diagnose(diagnostics().escaped_value, "escaped number", [] {
      return "a number of a derivative that has ended is used in another one: it is a constant "
             "there. Return it, pass it as an argument, or store stop_gradient() of it";
    });
  }
  [[noreturn, gnu::noinline]] static void throw_full() {
    throw Error(ErrorCode::kResourceExhausted,
                "a tape of scalars holds 2^31 numbers at most. Differentiate parts of the program "
                "by themselves, or write a derivative for its inner loop");
  }
  [[gnu::always_inline]] void put(std::uint32_t target, const T& p0, std::uint32_t s0, const T& p1,
                                  std::uint32_t s1) {
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
  void note_write(std::uint32_t target) {
    if constexpr (kChecksSlots) {
      const std::size_t slot = target & ~kAdds;
      std::vector<std::uint32_t>& writes = writes_.elements();
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
  const Call* begin_of(std::size_t chunk) const { return chunks_[chunk].get() + 1; }
  const Call* open_begin() const { return begin_of(chunks_.size() - 1); }

  // Back from `at` in a chunk to `begin` in an earlier one or the same.
  void reverse_until(std::size_t begin_chunk, const Call* begin, std::size_t chunk, const Call* at,
                     std::vector<T>& cotangents) const {
    for (; chunk > begin_chunk; --chunk) {
      reverse_chunk(begin_of(chunk), at, cotangents.data());
      at = chunks_[chunk - 1].get() + kChunk;
    }
    reverse_chunk(begin, at, cotangents.data());
  }
  static void reverse_chunk(const Call* begin, const Call* at, T* cotangents) {
    using scalar_math::is_exact_zero, scalar_math::strong_product;
    while (at != begin) {
      --at;
      T& target = cotangents[at->target & ~kAdds];
      const T arrived = target;
      if constexpr (std::is_floating_point_v<T>) {
        if (scalar_math::is_plain_factor(arrived)) {
          if ((at->target & kAdds) == 0) target = T(0);
          cotangents[at->operands[0]] += at->partials[0] * arrived;
          if (at->operands[1] != 0) cotangents[at->operands[1]] += at->partials[1] * arrived;
          continue;
        }
      }
      if (is_exact_zero(arrived)) continue;
      if ((at->target & kAdds) == 0) target = T(0);
      cotangents[at->operands[0]] += strong_product(at->partials[0], arrived);
      if (at->operands[1] != 0) {
        cotangents[at->operands[1]] += strong_product(at->partials[1], arrived);
      }
    }
    // g++ 12 at -O2 takes this function for one without effects where T is a class, and drops the
    // call; a barrier is an effect.
    asm volatile("" ::: "memory");
  }

  std::vector<Chunk> chunks_;
  std::vector<Note> notes_;
  struct NoCounts {};
  [[no_unique_address]] std::conditional_t<kChecksSlots, KeptVector<std::uint32_t, SlotWrites>,
                                           NoCounts>
      writes_;  // of each slot; of any number before
  std::unique_ptr<ScalarCompanion<T>> companion_;
  inline static Call nothing_{};  // stands for the chunk before the first
  Call* next_ = &nothing_ + 1;
  Call* end_ = &nothing_ + 1;
  std::uint32_t size_ = 1, most_ = 0;
  std::uint64_t key_ = 0;
  const char* last_end_ = nullptr;
  ScalarTape* outer_ = nullptr;
};

}  // namespace internal
}  // namespace etude
