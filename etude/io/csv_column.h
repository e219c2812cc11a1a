// SPDX-License-Identifier: Apache-2.0
// A column of a CSV file during reading: its values, and its kind, which widens as cells require.
// Used by the reader of CSV files (csv.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/buffer.h"
#include "etude/core/tensor.h"

namespace etude::io::csv {

// The narrowest kind that fits all cells so far; kNone: no value yet. kUnsigned: whole numbers >=
// 0, some of them beyond int64.
enum class Kind : uint8_t { kNone, kInt, kUnsigned, kFloat, kBool, kText };

// Reuses freed tensor memory: new pages would take as long as parsing.
template <class T>
struct BlockAllocator {
  using value_type = T;
  BlockAllocator() = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>&) noexcept {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(etude::internal::allocate_block(n * sizeof(T)));
  }
  void deallocate(T* block, std::size_t n) noexcept {
    etude::internal::free_block(block, n * sizeof(T));
  }
  friend bool operator==(const BlockAllocator&, const BlockAllocator&) noexcept { return true; }
};
template <class T>
using Values = std::vector<T, BlockAllocator<T>>;

// Stores whole numbers and bools as int64, kUnsigned numbers by their bits, and other numbers as
// float64.
struct Column {
  std::string name;
  std::optional<DType> dtype;  // as requested
  Kind kind = Kind::kNone;
  bool is_kept = true;
  bool is_fixed = false;      // the kind was requested, or is text
  bool turns_text = false;    // must be read again
  int64_t low = 0, high = 0;  // of a requested kInt
  Values<int64_t> ints;
  Values<double> floats;
  std::vector<std::string> texts;
  int64_t missing = 0;
  std::string inexact;  // the first whole number that float64 cannot represent

  bool is_whole() const { return kind == Kind::kInt || kind == Kind::kUnsigned; }
  // Whether `value` may be added to `ints` unchanged.
  bool takes(int64_t value) const {
    if (kind == Kind::kUnsigned) return value >= 0;
    return kind == Kind::kInt && (!is_fixed || (value >= low && value <= high));
  }
  void resize(std::size_t rows);
  // throws: kInvalidArgument for a complex dtype.
  void ask_for(DType wanted);
  // Converts whole numbers to float64, with the same result as reading their text as float64.
  void widen();
  // Sets the kind to the kind of the first value, `number`.
  void find_kind(std::string_view number);
  // Widens whole numbers to unsigned or float64 if `number` needs it.
  void make_room_for(std::string_view number);
  // Adds a value to a column that is not text; false if the kind cannot represent it.
  bool add(std::string_view number);
  // Records `number`, which became `value`, if it may be a whole number that float64 cannot
  // represent.
  void note_inexact(std::string_view number, double value);
  // Warns, once per file and column, that whole numbers became float64 and lost digits.
  void warn_of_lost_digits(std::string_view file) const;
  // Moves the values into a tensor [rows].
  Tensor take_values(int64_t rows);
};

// The smallest whole number above which float64 cannot represent every whole number.
inline constexpr double kInexact = 9007199254740992.0;

// `text` without surrounding blanks and without a plus sign.
std::string_view trimmed(std::string_view text);

}  // namespace etude::io::csv
