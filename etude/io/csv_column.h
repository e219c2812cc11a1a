// SPDX-License-Identifier: Apache-2.0
// A column of a CSV file while it is read: its kind, which grows with the cells, and its values.
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

// What holds all cells so far, from the narrowest on; kNone: no value yet. kUnsigned: whole numbers
// from 0 on, of which some are beyond int64.
enum class Kind : std::uint8_t { kNone, kInt, kUnsigned, kFloat, kBool, kText };

// Memory of tensors, of which what was freed is used again: new pages take as long as parsing does.
template <class T>
struct BlockAllocator {
  using value_type = T;
  BlockAllocator() = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor)
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

// Whole numbers and truths are kept as int64, those of kUnsigned by their bits; other numbers as
// float64.
struct Column {
  std::string name;
  std::optional<DType> dtype;  // as asked for
  Kind kind = Kind::kNone;
  bool is_kept = true;
  bool is_fixed = false;           // the kind was asked for, or is text
  bool turns_text = false;         // to be read once more
  std::int64_t low = 0, high = 0;  // of kInt, where it was asked for
  Values<std::int64_t> ints;
  Values<double> floats;
  std::vector<std::string> texts;
  std::int64_t missing = 0;
  std::string inexact;  // the first whole number that float64 does not hold

  bool is_whole() const { return kind == Kind::kInt || kind == Kind::kUnsigned; }
  // Whether `value` may be added to `ints` as it is.
  bool takes(std::int64_t value) const {
    if (kind == Kind::kUnsigned) return value >= 0;
    return kind == Kind::kInt && (!is_fixed || (value >= low && value <= high));
  }
  void resize(std::size_t rows);
  // throws: kInvalidArgument for a complex dtype.
  void ask_for(DType wanted);
  // From whole numbers to others. Values are what their text would have given.
  void widen();
  // Takes the kind of the first value, which is `number`.
  void find_kind(std::string_view number);
  // Lets whole numbers become unsigned or float64 where `number` needs it.
  void make_room_for(std::string_view number);
  // Adds a value to those that are no text; false if the kind does not hold it.
  bool add(std::string_view number);
  // Notes that `number`, which has become `value`, may be a whole number that float64 does not
  // hold.
  void note_inexact(std::string_view number, double value);
  // Says once, for file and column, that whole numbers have become float64 and lost digits.
  void warn_of_lost_digits(std::string_view file) const;
  // The values as a tensor [rows]. They move out.
  Tensor take_values(std::int64_t rows);
};

// From here on doubles do not hold every whole number.
inline constexpr double kInexact = 9007199254740992.0;

// Without blanks around it and a plus sign.
std::string_view trimmed(std::string_view text);

}  // namespace etude::io::csv
