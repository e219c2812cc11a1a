// SPDX-License-Identifier: Apache-2.0
// The records of calls on active numbers (active.h): computes the place of the result from the
// places of the operands and the partials. A place holds the bits of a slot (slots.h); 0: the
// result does not vary.
#pragma once

#include <cstdint>

#include "etude/diff/internal/inlining.h"
#include "etude/diff/internal/tape/scalar_tape.h"
#include "etude/diff/internal/tape/slots.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// threads: records on the tape of the calling thread.
template <class T>
class ActiveCalls {
  using Tape = ScalarTape<T>;

 public:
  // Whether a, or both, depend on arguments of the derivative that is being computed.
  static bool on(uint64_t a, uint64_t key = Tape::current_key()) {
    return ((a ^ key) >> kSlotBits) == 0;
  }
  static bool both_on(uint64_t a, uint64_t b) {
    const uint64_t key = Tape::current_key();
    return (((a ^ key) | (b ^ key)) >> kSlotBits) == 0;
  }
  ETUDE_INLINED static uint32_t slot_of(uint64_t place) { return static_cast<uint32_t>(place); }
  ETUDE_INLINED static bool owns(uint64_t place) { return (place & kOwnsSlot) != 0; }
  // From here on operands and results are bits, with one bit for whether a call may overwrite the
  // slot.
  ETUDE_INLINED static uint64_t checked(SlotOperand a) {
    if constexpr (kChecksSlots) {
      if (on(a.bits())) Tape::current()->check_read(a);
    }
    return a.bits();
  }
  static uint64_t new_place(Tape* tape) {
    return Tape::current_key() | kOwnsSlot | tape->new_slot();
  }

  // The place of the result of a call with one operand that may vary.
  ETUDE_INLINED static uint64_t place_of(uint64_t a, const T& da) {
    if (!on(a)) [[unlikely]] {
      check_ended(Tape::current(), a);
      return 0;
    }
    Tape* tape = Tape::current();
    if (owns(a) && tape->just_set(slot_of(a))) {
      tape->scale_last(da);
      return a;
    }
    const uint64_t place = owns(a) ? a : new_place(tape);
    tape->set(slot_of(place), da, slot_of(a));
    return place;
  }
  // The same with two operands that may vary.
  ETUDE_INLINED static uint64_t place_of(uint64_t a, const T& da, uint64_t b, const T& db) {
    if (!both_on(a, b)) [[unlikely]]
      return place_of_one(a, da, b, db);
    Tape* tape = Tape::current();
    const uint64_t place = owns(a) ? a : owns(b) ? b : new_place(tape);
    tape->set(slot_of(place), da, slot_of(a), db, slot_of(b));
    return place;
  }
  ETUDE_INLINED static uint64_t place_of_sum(uint64_t a, uint64_t b) {
    if (!both_on(a, b)) [[unlikely]]
      return place_of_moved(a, b);
    Tape* tape = Tape::current();
    if (owns(a)) {
      if (owns(b) && tape->just_set(slot_of(b))) {
        tape->add_last_to(slot_of(a));
      } else {
        tape->add(slot_of(a), T(1), slot_of(b));
      }
      return a;
    }
    if (owns(b)) {
      if (tape->just_set_from_one(slot_of(b))) {
        tape->fill_last(T(1), slot_of(a));
      } else {
        tape->add(slot_of(b), T(1), slot_of(a));
      }
      return b;
    }
    const uint64_t place = new_place(tape);
    tape->set(slot_of(place), T(1), slot_of(a), T(1), slot_of(b));
    return place;
  }
  ETUDE_INLINED static uint64_t place_of_difference(uint64_t a, uint64_t b) {
    if (!both_on(a, b)) [[unlikely]]
      return on(b) ? place_of_one(a, T(1), b, T(-1)) : place_of_moved(a, b);
    Tape* tape = Tape::current();
    if (owns(a)) {
      if (owns(b) && tape->just_set(slot_of(b))) {
        tape->negate_last();
        tape->add_last_to(slot_of(a));
      } else {
        tape->add(slot_of(a), T(-1), slot_of(b));
      }
      return a;
    }
    if (owns(b) && tape->just_set_from_one(slot_of(b))) {
      tape->negate_last();
      tape->fill_last(T(1), slot_of(a));
      return b;
    }
    const uint64_t place = owns(b) ? b : new_place(tape);
    tape->set(slot_of(place), T(1), slot_of(a), T(-1), slot_of(b));
    return place;
  }
  // The same if at most one of two operands belongs to the derivative. By value, so that the
  // numbers need not be in memory.
  [[gnu::noinline]] static uint64_t place_of_one(uint64_t a, T da, uint64_t b, T db) {
    const bool second = on(b);
    check_ended(Tape::current(), second ? a : b);
    return second ? place_of(b, db) : place_of(a, da);
  }
  // The same for a sum: an owned slot is kept, a lent slot is copied to a new slot.
  [[gnu::noinline]] static uint64_t place_of_moved(uint64_t a, uint64_t b) {
    const bool second = on(b);
    check_ended(Tape::current(), second ? a : b);
    const uint64_t place = second ? b : a;
    return on(place) && owns(place) ? place : place_of(place, T(1));
  }
  // throws: kInvalidArgument, kFailedPrecondition if the number belongs to an outer derivative, or
  // to a derivative of another thread.
  static void check_ended(const Tape* tape, uint64_t place) {
    if (place != 0) [[unlikely]]
      check_foreign(tape, place);
  }
  [[gnu::noinline]] static void check_foreign(const Tape* tape, uint64_t place) {
    if (place == kMovedFrom) {
      if (tape != nullptr) throw_moved_from();
    } else {
      Tape::require_ended(tape, place >> kSlotBits << kSlotBits);
    }
  }
};

}  // namespace internal
}  // namespace etude
