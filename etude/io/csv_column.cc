// SPDX-License-Identifier: Apache-2.0
#include "etude/io/csv_column.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/io/decimal.h"

namespace etude::io::csv {
namespace {

using etude::internal::number_in;

template <class T>
constexpr bool kIsWhole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

bool is_word(std::string_view text, std::string_view word) {
  return text.size() == word.size() &&
         std::equal(text.begin(), text.end(), word.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

// Digits, with a sign or without.
bool is_whole_text(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  return !number.empty() && std::all_of(number.begin(), number.end(), etude::internal::is_digit);
}

// Whether a double holds the whole number of this text. `value` is the nearest double.
bool is_exact(std::string_view number, double value) {
  if (std::abs(value) < kInexact) return true;
  if (std::abs(value) >= 18446744073709551616.0) return false;  // 2^64
  const bool is_negative = number.starts_with('-');
  const auto size = number_in<uint64_t>(number.substr(is_negative ? 1 : 0));
  return size && *size == static_cast<uint64_t>(std::abs(value));
}

// The tensor that has the vector as its storage.
template <class T>
Tensor over(Values<T> values, const Type* type) {
  const auto owner = std::make_shared<const Values<T>>(std::move(values));
  return etude::internal::make_tensor_over(type, owner->data(), owner);
}

DType dtype_of(const Column& column) {
  if (column.dtype) return *column.dtype;
  switch (column.kind) {
    case Kind::kInt:
      return kInt64;
    case Kind::kUnsigned:
      return kUInt64;
    case Kind::kBool:
      return kBool;
    default:
      return kFloat64;
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

void Column::resize(std::size_t rows) {
  if (ints.size() > rows) ints.resize(rows);
  if (floats.size() > rows) floats.resize(rows);
  if (texts.size() > rows) texts.resize(rows);
}

void Column::ask_for(DType wanted) {
  dtype = wanted;
  is_fixed = true;
  visit_dtype(wanted, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      kind = Kind::kBool;
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      kind = Kind::kUnsigned;
    } else if constexpr (kIsWhole<T>) {
      kind = Kind::kInt;
      low = static_cast<int64_t>(std::numeric_limits<T>::min());
      high = static_cast<int64_t>(std::numeric_limits<T>::max());
    } else {
      ETUDE_REQUIRE(!etude::internal::kIsComplex<T>, "column '{}': CSV has no numbers of dtype {}",
                    name, etude::name(wanted));
      kind = Kind::kFloat;
    }
  });
}

void Column::widen() {
  floats.reserve(ints.size());
  for (const int64_t bits : ints) {
    const bool is_unsigned = kind == Kind::kUnsigned;
    const double value =
        is_unsigned ? static_cast<double>(static_cast<uint64_t>(bits)) : static_cast<double>(bits);
    floats.push_back(value);
    if (std::abs(value) < kInexact || !inexact.empty()) continue;
    note_inexact(is_unsigned ? std::to_string(static_cast<uint64_t>(bits)) : std::to_string(bits),
                 value);
  }
  ints = {};
  kind = Kind::kFloat;
}

void Column::find_kind(std::string_view number) {
  const bool is_first = floats.empty();  // no missing cell came before
  if (number_in<int64_t>(number)) {
    kind = is_first ? Kind::kInt : Kind::kFloat;
  } else if (number_in<uint64_t>(number)) {
    kind = is_first ? Kind::kUnsigned : Kind::kFloat;
  } else if (number_in<double>(number)) {
    kind = Kind::kFloat;
  } else if (is_first && (is_word(number, "true") || is_word(number, "false"))) {
    kind = Kind::kBool;
  } else {
    kind = Kind::kText;
  }
}

void Column::make_room_for(std::string_view number) {
  if (is_fixed || !is_whole()) return;
  if (kind == Kind::kInt && number_in<int64_t>(number)) return;
  if (number_in<uint64_t>(number) &&
      (kind == Kind::kUnsigned ||
       std::all_of(ints.begin(), ints.end(), [](int64_t value) { return value >= 0; }))) {
    kind = Kind::kUnsigned;
  } else if (number_in<double>(number)) {
    widen();
  }
}

bool Column::add(std::string_view number) {
  if (kind == Kind::kInt) {
    const auto value = number_in<int64_t>(number);
    const bool fits = value && takes(*value);
    if (fits) ints.push_back(*value);
    return fits;
  }
  if (kind == Kind::kUnsigned) {
    const auto value = number_in<uint64_t>(number);
    if (value) ints.push_back(static_cast<int64_t>(*value));
    return value.has_value();
  }
  if (kind == Kind::kBool) {
    const bool is_true = is_word(number, "true") || (is_fixed && number == "1");
    const bool fits = is_true || is_word(number, "false") || (is_fixed && number == "0");
    if (fits) ints.push_back(is_true);
    return fits;
  }
  if (kind != Kind::kFloat) return false;
  std::optional<double> value;
  if (dtype == kFloat32) {
    if (const auto narrow = number_in<float>(number)) value = static_cast<double>(*narrow);
  } else {
    value = number_in<double>(number);
  }
  if (!value) return false;
  floats.push_back(*value);
  note_inexact(number, *value);
  return true;
}

void Column::note_inexact(std::string_view number, double value) {
  if (is_fixed || !inexact.empty() || is_exact(number, value) || !is_whole_text(number)) return;
  inexact = number;
}

void Column::warn_of_lost_digits(std::string_view file) const {
  const auto is_whole = [](double value) {
    return std::isnan(value) || value == std::floor(value);
  };
  if (kind != Kind::kFloat || inexact.empty() ||
      !std::all_of(floats.begin(), floats.end(), is_whole)) {
    return;
  }
  constexpr std::size_t kShown = 40;
  etude::internal::warn_once(
      fmt::format("csv {} {}", file, name),
      fmt::format("read_csv: {}: column '{}' holds whole numbers, but becomes float64, which does "
                  "not hold {}: {}. To keep all digits, read it as text: .texts = {{\"{}\"}}",
                  file, name, inexact.substr(0, kShown),
                  missing > 0 ? "a value is missing" : "no integer dtype holds all of its numbers",
                  name));
}

Tensor Column::take_values(int64_t rows) {
  const DType made = dtype_of(*this);
  const Type* type = intern_type(made, Shape{rows});
  constexpr int64_t kLarge = 4096;  // below, a tensor is one block of memory
  if (rows >= kLarge && made == kFloat64) return over(std::move(floats), type);
  if (rows >= kLarge && (made == kInt64 || made == kUInt64)) return over(std::move(ints), type);
  Tensor out = etude::internal::make_tensor(type);
  visit_dtype(made, [&]<class T>() {
    auto* to = static_cast<T*>(etude::internal::host_elements_for_writing(out));
    if constexpr (std::is_integral_v<T>) {
      for (const int64_t value : ints) *to++ = static_cast<T>(value);
    } else if constexpr (etude::internal::kIsHalf<T>) {
      for (const double value : floats) *to++ = T(static_cast<float>(value));
    } else if constexpr (!etude::internal::kIsComplex<T>) {
      for (const double value : floats) *to++ = static_cast<T>(value);
    }
  });
  return out;
}

}  // namespace etude::io::csv
