// SPDX-License-Identifier: Apache-2.0
// Derived sequences for scan: elements computed on read, and windows of neighbouring numbers. Used
// with scan.h. Reading these sequences records nothing on a tape.
//
//   // The mean squared error, for data y at points x, of a piecewise linear curve through the
//   // numbers p.
//   const auto place = [&](std::size_t i) { return static_cast<int>(x[i]); };
//   const auto at = sequence(n, [&](std::size_t i) { return x[i] - place(i); });
//   const auto error = [](auto sum, auto, const auto& p, auto t, auto y) {
//     const auto r = p[0] + t * (p[1] - p[0]) - y;
//     return sum + r * r;
//   };
//   scan(n, 0.0, std::tuple(), error, windows<2>(p, sequence(n, place)), at, y) / n
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "etude/base/error.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class Element>
class ComputedSequence {
 public:
  ComputedSequence(std::size_t size, const Element& element) : size_(size), element_(element) {}
  std::size_t size() const { return size_; }
  [[gnu::always_inline]] decltype(auto) operator[](std::size_t i) const { return element_(i); }

 private:
  std::size_t size_;
  Element element_;
};

[[noreturn]] inline void throw_window(std::size_t i, const std::string& begin, std::size_t length,
                                      std::size_t size) {
  throw Error(ErrorCode::kOutOfRange,
              "windows: element " + std::to_string(i) + " begins at " + begin + " and has " +
                  std::to_string(length) + " numbers, but there are " + std::to_string(size) +
                  (size < length ? ". Give more numbers"
                                 : ". Let it begin at 0 to " + std::to_string(size - length)));
}

// `Begins` is a reference, or a type that is stored by value.
template <std::size_t n, class Numbers, class Begins>
class Windows {
 public:
  using Number = std::remove_cvref_t<decltype(std::declval<const Numbers&>()[0])>;
  static constexpr std::size_t kLength = n;

  Windows(const Numbers& numbers, Begins&& begins)
      : numbers_(numbers), begins_(std::forward<Begins>(begins)) {}

  std::size_t size() const { return std::size(begins_); }
  const Numbers& numbers() const { return numbers_; }
  const auto& begins() const { return begins_; }
  // A window must begin before this index; 0 if no window fits.
  std::size_t limit() const {
    const std::size_t size = std::size(numbers_);
    return size < n ? 0 : size - n + 1;
  }
  void check(std::size_t i) const {
    if (place(i) >= limit()) {
      throw_window(i, std::to_string(begins_[i]), n, std::size(numbers_));
    }
  }
  // throws: kOutOfRange if the window is not within the numbers.
  std::array<Number, n> operator[](std::size_t i) const {
    check(i);
    const std::size_t begin = place(i);
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      return std::array<Number, n>{numbers_[begin + k]...};
    }
    (std::make_index_sequence<n>());
  }

 private:
  std::size_t place(std::size_t i) const {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): a negative begin exceeds every limit
    return static_cast<std::size_t>(begins_[i]);
  }

  const Numbers& numbers_;
  Begins begins_;
};

}  // namespace internal

// A sequence of `size` elements. Element i is element(i), computed on every read.
template <class Element>
auto sequence(std::size_t size, const Element& element) {
  return internal::ComputedSequence<Element>(size, element);
}

// A sequence of windows. Element i is a std::array of the n numbers from numbers[begins[i]] on.
// `numbers` is an array or vector of constants or of differentiable numbers. The sequence keeps
// references to `numbers` and `begins`, but stores a temporary `begins` by value. A summing scan
// reads and differentiates whole windows without checking each number.
// throws (when read): kOutOfRange if a window is not within the numbers.
template <std::size_t n, class Numbers, class Begins>
auto windows(Numbers&& numbers, Begins&& begins) {
  static_assert(std::is_lvalue_reference_v<Numbers>,
                "etude: windows keep a reference to their numbers; give them a variable, not a "
                "temporary");
  static_assert(n > 0, "etude: windows have one number at least");
  static_assert(std::is_integral_v<std::remove_cvref_t<decltype(begins[0])>>,
                "etude: windows begin at whole numbers; give a sequence of integers");
  return internal::Windows<n, std::remove_cvref_t<Numbers>, Begins>(numbers,
                                                                    std::forward<Begins>(begins));
}

}  // namespace etude
