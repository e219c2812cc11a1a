// SPDX-License-Identifier: Apache-2.0
// The tape of active scalars (active.h): for each recorded call the partial derivatives of the
// result by its operands. Used by active.h and scalar_reverse.h. Its parts: memory in
// kept_memory.h, threads in tape_threads.h, recording in tape_recorder.h, the sweep in
// tape_sweep.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/warning.h"
#include "etude/diff/internal/tape/slots.h"
#include "etude/diff/internal/tape/tape_recorder.h"
#include "etude/diff/internal/tape/tape_sweep.h"
#include "etude/diff/internal/tape/tape_threads.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A record on a tape with its own reverse function. `cotangents` are indexed by slot.
// threads: reverse() const may run on several threads at once.
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

// The tape of tensors next to a tape of numbers, for functions that convert numbers to tensors or
// back. It runs the reverse pass over both tapes. Implemented in autodiff/.
template <class T>
class ScalarCompanion {
 public:
  ScalarCompanion() = default;
  ScalarCompanion(const ScalarCompanion&) = delete;
  ScalarCompanion& operator=(const ScalarCompanion&) = delete;
  virtual ~ScalarCompanion() = default;
  // Called after the differentiated function has returned.
  virtual void stop() noexcept = 0;
  // The reverse pass for ScalarTape::reverse(); `tape` is the tape of numbers.
  virtual void reverse(const ScalarTape<T>& tape, std::vector<T>& cotangents) const = 0;
};

// The calls of a derivative in order. A slot is a number's index among the cotangents; slots.h has
// the rules for writing to slots.
//
// threads: recorded by one thread; reverse() const may run on several threads at once.
template <class T>
class ScalarTape : public TapeThreads<T>, public TapeRecorder<T> {
  using Recorder = TapeRecorder<T>;
  using Threads = TapeThreads<T>;
  using Place = typename Recorder::Place;

 public:
  using Threads::current;

  // Makes this tape the innermost tape. stop() removes it from any position.
  void start() {
    outer_ = std::exchange(current(), this);
    Threads::warn_current(key_);
  }
  void stop() noexcept {
    ScalarTape** at = &current();
    while (*at != nullptr && *at != this) at = &(*at)->outer_;
    if (*at == nullptr) return;
    *at = std::exchange(outer_, nullptr);
    Threads::warn_current(current() != nullptr ? current()->key_ : kNoKey);
    if (companion_ != nullptr) companion_->stop();
  }

  ScalarTape() : key_(Threads::next_key()) {}
  ScalarTape(ScalarTape&& other) noexcept
      : Recorder(std::move(other)),
        notes_(std::exchange(other.notes_, {})),
        companion_(std::move(other.companion_)),
        key_(std::exchange(other.key_, 0)),
        last_end_(other.last_end_) {}
  ScalarTape& operator=(ScalarTape&&) = delete;
  ~ScalarTape() = default;

  // The key of the numbers of this tape: the tape's number, above kSlotBits.
  uint64_t key() const { return key_; }
  // The tape of tensors; null: numbers alone.
  ScalarCompanion<T>* companion() const { return companion_.get(); }
  void set_companion(std::unique_ptr<ScalarCompanion<T>> companion) {
    companion_ = std::move(companion);
  }
  // Whether the tape with this key is outside this tape.
  bool is_around(uint64_t key) const {
    const ScalarTape* tape = outer_;
    while (tape != nullptr && tape->key_ != key) tape = tape->outer_;
    return tape != nullptr;
  }
  // Refuses numbers whose dependence would be lost: of an outer tape, or of a tape that another
  // thread records. A number of an ended tape is plain. `tape` is the tape of this thread, or null.
  // throws: kInvalidArgument, kFailedPrecondition if the tape with this key has not ended.
  [[gnu::noinline, gnu::cold]] static void require_ended(const ScalarTape* tape, uint64_t key) {
    if (tape != nullptr && tape->is_around(key)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "gradient: a number of an outer derivative is used in an inner one whose own "
                  "argument is plain. Make the inner argument from the outer one: "
                  "decltype(x)(1.0) for 1.0");
    }
    thread_local constinit uint64_t ended = 0;  // a key that is known to have ended
    if (ended != key && Threads::is_recorded_somewhere(key)) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "gradient: a number of a derivative that one thread takes is used on another, "
                  "where nothing records it. Take a derivative on each thread and add them up, or "
                  "pass stop_gradient(x)");
    }
    ended = key;
    if (tape != nullptr) warn_escaped();
  }
  // Whether slot `from` depends on a slot in [begin, end), which are inputs.
  bool depends(uint32_t from, uint32_t begin, uint32_t end) const {
    if (from == 0) return false;
    // Notes and tensors are not searched.
    if (!notes_.empty() || companion_ != nullptr) return true;
    std::vector<bool> reached(this->size());
    reached[from] = true;
    this->each_run_back(
        this->last_place(), this->first_place(),
        [&](const auto* first, const auto* last) { reach_back(first, last, reached); });
    for (uint32_t s = begin; s < end; ++s) {
      if (reached[s]) return true;
    }
    return false;
  }
  // The last call that ended the dependence of a number, such as a cast to an integer; null if
  // none.
  const char* last_end() const { return last_end_; }
  void note_end(const char* by) { last_end_ = by; }

  // A position between two calls and between two notes.
  struct Position : Place {
    std::size_t notes = 0;
  };
  Position begin() const { return {this->first_place(), 0}; }
  Position end() const { return {this->last_place(), notes_.size()}; }
  // The current end. Calls before it do not change any more.
  Position mark() {
    this->close();
    return end();
  }

  // Records `note`. The reverse pass runs it after all calls recorded later, and before all calls
  // recorded earlier.
  void append_note(std::unique_ptr<const ScalarNote<T>> note) {
    const Position here = mark();
    notes_.push_back({here, std::move(note)});
  }

  // Computes the cotangents of the inputs from the cotangents of the results, by slot.
  void reverse(std::vector<T>& cotangents) const {
    if (companion_ != nullptr) {
      companion_->reverse(*this, cotangents);
    } else {
      reverse(end(), begin(), cotangents);
    }
  }
  // The same for the records between two positions.
  void reverse(Position from, const Position& to, std::vector<T>& cotangents) const {
    if (to.at == nullptr) return;
    for (std::size_t n = from.notes; n-- > to.notes;) {
      sweep(from, notes_[n].place, cotangents);
      notes_[n].note->reverse(cotangents);
      from = {notes_[n].place, n};
    }
    sweep(from, to, cotangents);
  }

 private:
  struct Note {
    Place place;
    std::unique_ptr<const ScalarNote<T>> note;
  };

  static void warn_escaped() {
    diagnose(diagnostics().escaped_value, "escaped number", [] {
      return "a number of a derivative that has ended is used in another one: it is a constant "
             "there. Return it, pass it as an argument, or store stop_gradient() of it";
    });
  }
  void sweep(const Place& from, const Place& to, std::vector<T>& cotangents) const {
    this->each_run_back(from, to, [&](const auto* first, const auto* last) {
      sweep_back(first, last, cotangents.data());
    });
  }

  std::vector<Note> notes_;
  std::unique_ptr<ScalarCompanion<T>> companion_;
  uint64_t key_ = 0;
  const char* last_end_ = nullptr;
  ScalarTape* outer_ = nullptr;
};

}  // namespace internal
}  // namespace etude
