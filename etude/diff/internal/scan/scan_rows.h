// SPDX-License-Identifier: Apache-2.0
// The inputs and results of a scan as rows of numbers, and their slots on a tape. Used by scan.h
// and scan_sum.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "etude/diff/active.h"
#include "etude/diff/internal/replace_scalars.h"
#include "etude/diff/internal/tape/scalar_tape.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The numbers of a structure in a row, and their slots; 0 for constants.
template <class T, class X>
constexpr void fill_row(const X& x, T* row) {
  auto each = [&row](const auto& v) {
    if constexpr (IsActive<std::remove_cvref_t<decltype(v)>>::value) {
      *row++ = v.value();
    } else {
      *row++ = static_cast<T>(v);
    }
  };
  each_leaf(x, each);
}
template <class T, class X>
void fill_slots(const ScalarTape<T>& tape, const X& x, uint32_t* slots) {
  auto each = [&](const auto& v) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, Active<T>>) {
      *slots++ = v.slot_on(tape);
    } else {
      *slots++ = 0;
    }
  };
  each_leaf(x, each);
}
template <class T, class X>
constexpr auto row_of(const X& x) {
  std::array<T, scalar_count<X>()> row{};
  fill_row(x, row.data());
  return row;
}
template <class T, class X>
auto slots_of(const ScalarTape<T>& tape, const X& x) {
  std::array<uint32_t, scalar_count<X>()> slots{};
  fill_slots(tape, x, slots.data());
  return slots;
}
// Elements of a sequence: whether they may vary, and their number of numbers.
template <class X>
using element_t = std::remove_cvref_t<decltype(std::declval<const X&>()[0])>;
template <class X>
inline constexpr bool kHoldsActive = IsActive<typename ScalarIn<X>::type>::value;
template <class X>
inline constexpr bool kMayVary = kHoldsActive<element_t<X>>;
template <class X>
inline constexpr std::size_t kWidth = scalar_count<element_t<X>>();

// The numbers of a result as new numbers of the tape, with `slots`.
template <class Plain, class T, std::size_t n>
auto results_of(ScalarTape<T>& tape, const Plain& like, const std::array<T, n>& values,
                std::array<uint32_t, n>& slots) {
  using S = Active<T>;
  std::size_t next = 0;
  auto input = [&](const T&) {
    slots[next] = tape.new_input();
    S made = S::input(values[next], tape, slots[next]);
    ++next;
    return made;
  };
  return map_scalars<replace_scalar_t<Plain, T, S>>(like, input);
}

}  // namespace internal
}  // namespace etude
