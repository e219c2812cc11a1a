// SPDX-License-Identifier: Apache-2.0
// The sizes of a tensor, with overflow-checked arithmetic. A plain value without heap memory. kAny
// marks a size that is not fixed: it depends on data, or a specification leaves it open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {

inline constexpr int64_t kAny = -1;
inline constexpr int kMaxRank = 16;
// The maximum number of elements of a tensor. Larger shapes are refused before memory is allocated.
inline constexpr int64_t kMaxCount = int64_t{1} << 48;

namespace internal {
// Reports to the current trace that host code reads this size of a tensor
// (core/internal/size_reads.h).
[[gnu::cold]] void note_size(int64_t size) noexcept;
}  // namespace internal

// Up to kMaxRank sizes, each at least 0 or kAny. throws: kInvalidArgument for a higher rank or any
// other size.
class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<int64_t> sizes);
  Shape(std::span<const int64_t> sizes);
  Shape(const std::vector<int64_t>& sizes) : Shape(std::span(sizes.data(), sizes.size())) {}

  int rank() const noexcept { return rank_; }
  bool is_scalar() const noexcept { return rank_ == 0; }
  int64_t operator[](int axis) const noexcept {
    const int64_t size = sizes_[static_cast<std::size_t>(axis)];
    if (is_watched_) [[unlikely]]
      internal::note_size(size);
    return size;
  }
  // Replaces one size. `size` must be at least 0 or kAny, which is not checked.
  void set(int axis, int64_t size) noexcept { sizes_[static_cast<std::size_t>(axis)] = size; }
  void push_back(int64_t size);
  const int64_t* begin() const noexcept {
    if (is_watched_) [[unlikely]]
      note_sizes();
    return sizes_.data();
  }
  const int64_t* end() const noexcept { return sizes_.data() + rank_; }
  std::span<const int64_t> sizes() const noexcept { return {begin(), end()}; }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }
  // Returns the product of the sizes; 1 for rank 0. kAny if a size is unknown.
  // throws: kInvalidArgument if the product of the sizes other than 0 and kAny exceeds kMaxCount.
  int64_t count() const;
  bool is_known() const noexcept;
  // "[2,3]"; an unknown size is "?".
  std::string to_string() const;
  bool operator==(const Shape& other) const noexcept;

  // Returns a copy, which is watched if `is_watched` is true. Reads of the sizes of a watched shape
  // are reported to the current trace (core/internal/size_reads.h).
  Shape watched(bool is_watched = true) const noexcept {
    Shape out(*this);
    out.is_watched_ = is_watched;
    return out;
  }

 private:
  void note_sizes() const noexcept;

  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
  bool is_watched_ = false;
};

// Returns the shape to which two operands broadcast (Array API rules).
// throws: kInvalidArgument, naming both shapes and the first axis that does not fit.
Shape broadcast(const Shape& a, const Shape& b);

// Returns `axis` counted from the front. throws: kOutOfRange unless -rank <= axis < rank.
int normalize_axis(int64_t axis, int rank);
// As normalize_axis, for a list. throws: kOutOfRange as normalize_axis; kInvalidArgument for a
// repeated axis.
std::vector<int> normalize_axes(std::span<const int64_t> axes, int rank);

}  // namespace etude
