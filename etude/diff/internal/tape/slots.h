// SPDX-License-Identifier: Apache-2.0
// The slots of numbers on a tape: the owner of a slot, its writers, and the guarantees for its
// readers. active.h stores a slot with the value of each number. For the calls see scalar_tape.h.
//
// A tape is a list of calls in order. Each writes to a slot, `slot = p a + q b` or `slot += p a + q
// b`, and reads slots in their state just before the call. In the reverse pass a slot holds, at
// each point, the cotangent of the number that the slot represented there. Invariants:
//
//   1. A number owns its slot or shares it. An owned slot belongs to one number only. A shared slot
//      is never written again.
//   2. The result of a call owns its slot. A move passes ownership on, and the source of the move
//      must not be used. A copy ends ownership: both numbers share the slot from then on. So a copy
//      writes to the HeldSlot of its source. Inputs share their slots with the tape.
//   3. A call writes to a new slot, or to a slot given to it: by an expiring operand, or by the
//      target of a compound assignment, if that owned it. The slot of any other operand is lent: it
//      is read, not written, and no number may be made from it.
//   4. So a reader may assume that the slot of a number represents the value of that number.
//
// A number has a HeldSlot, which copies and moves as in (2). A call gets SlotOperands. A given slot
// is marked as owned, a lent slot cannot be, and no number can be made from a SlotOperand. With
// ETUDE_ASSERTIONS each read checks (4): a tape counts the writes of each slot, and a holder of a
// slot remembers the count at which it got the slot.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "etude/base/error.h"
#include "etude/diff/internal/inlining.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

#ifdef ETUDE_ASSERTIONS
inline constexpr bool kChecksSlots = true;
#else
inline constexpr bool kChecksSlots = false;
#endif

// The number of writes to a slot; empty if slots are not checked.
template <bool is_kept>
struct WriteCount {
  uint32_t writes = 0;
  bool operator==(const WriteCount&) const = default;
};
template <>
struct WriteCount<false> {
  constexpr explicit WriteCount(uint32_t = 0) {}
  bool operator==(const WriteCount&) const = default;
};
using SlotWrites = WriteCount<kChecksSlots>;

// The key of a tape in the bits from kSlotBits, the slot in the low bits, and kOwnsSlot between.
inline constexpr int kSlotBits = 33;
inline constexpr uint64_t kOwnsSlot = uint64_t{1} << 32;
// Keys that no tape has.
inline constexpr uint64_t kNoKey = ~uint64_t{1} << kSlotBits;
inline constexpr uint64_t kMovedFrom = ~uint64_t{0} << kSlotBits;

// The slot of an operand, for a call that reads it, and may write to it if owns().
class SlotOperand {
 public:
  SlotOperand(uint64_t bits, SlotWrites writes) : bits_(bits), writes_(writes) {}
  bool owns() const { return (bits_ & kOwnsSlot) != 0; }
  uint32_t slot() const { return static_cast<uint32_t>(bits_); }
  uint64_t bits() const { return bits_; }
  SlotWrites writes() const { return writes_; }

 private:
  uint64_t bits_;
  [[no_unique_address]] SlotWrites writes_;
};

// The slot of a number on a tape; by default none.
//
// threads: copying the owner of a slot writes to the owner.
class HeldSlot {
 public:
  HeldSlot() = default;
  static HeldSlot shared(uint64_t key, uint32_t slot, SlotWrites writes) {
    return {key | slot, writes};
  }
  // The slot of a result. `bits`: a key, kOwnsSlot and a slot, new or given by an operand.
  ETUDE_INLINED static HeldSlot of_result(uint64_t bits, SlotWrites writes) {
    return {bits, writes};
  }
  HeldSlot(const HeldSlot& other) : bits_(other.bits_ & ~kOwnsSlot), writes_(other.writes_) {
    if (other.owns()) other.bits_ = bits_;
  }
  HeldSlot(HeldSlot&& other) noexcept : bits_(other.bits_), writes_(other.writes_) {
    if (owns()) other.bits_ = kMovedFrom;
  }
  HeldSlot& operator=(HeldSlot other) noexcept {
    bits_ = other.bits_;
    writes_ = other.writes_;
    return *this;
  }
  ~HeldSlot() = default;

  // For a call after which the number continues to exist.
  ETUDE_INLINED SlotOperand lent() const { return {bits_ & ~kOwnsSlot, writes_}; }
  // For a call that consumes the number.
  ETUDE_INLINED SlotOperand given() {
    return {owns() ? std::exchange(bits_, kMovedFrom) : bits_, writes_};
  }
  // For a compound assignment to the number. The number holds its slot until the result replaces
  // it, so that a throwing call changes nothing.
  ETUDE_INLINED SlotOperand replaced() const { return {bits_, writes_}; }

  bool owns() const { return (bits_ & kOwnsSlot) != 0; }
  uint32_t slot() const { return static_cast<uint32_t>(bits_); }
  uint64_t key() const { return bits_ >> kSlotBits << kSlotBits; }
  uint64_t bits() const { return bits_; }
  SlotWrites writes() const { return writes_; }

 private:
  HeldSlot(uint64_t bits, SlotWrites writes) : bits_(bits), writes_(writes) {}

  mutable uint64_t bits_ = 0;
  [[no_unique_address]] SlotWrites writes_;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_moved_from() {
  throw Error(ErrorCode::kInvalidArgument,
              "gradient: a number is used after std::move took it elsewhere, so its derivative is "
              "lost. Copy it instead of moving it");
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_written(uint32_t slot) {
  throw Error(ErrorCode::kInternal,
              "gradient: slot " + std::to_string(slot) +
                  " of a tape was written while a number held it, so the derivative by that number "
                  "would be wrong. This is a bug in Etude; please report the program");
}

}  // namespace internal
}  // namespace etude
