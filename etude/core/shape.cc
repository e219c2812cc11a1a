// SPDX-License-Identifier: Apache-2.0
#include "etude/core/shape.h"

#include <algorithm>
#include <cstddef>

#include "etude/base/check.h"

namespace etude {
namespace {

void require_rank(std::size_t rank) {
  ETUDE_REQUIRE(rank <= kMaxRank, "rank {} is above the limit of {} axes. Merge axes with reshape",
                rank, kMaxRank);
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> sizes)
    : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const int64_t> sizes) {
  require_rank(sizes.size());
  for (const int64_t size : sizes) push_back(size);
}

void Shape::push_back(int64_t size) {
  require_rank(static_cast<std::size_t>(rank_) + 1);
  ETUDE_REQUIRE(size >= kAny, "size {} on axis {} is negative. Sizes are 0 or more", size, rank_);
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

void Shape::note_sizes() const noexcept {
  for (int axis = 0; axis < rank_; ++axis)
    internal::note_size(sizes_[static_cast<std::size_t>(axis)]);
}

bool Shape::is_known() const noexcept {
  return std::none_of(begin(), end(), [](int64_t s) { return s == kAny; });
}

int64_t Shape::count() const {
  bool known = true, empty = false;
  int64_t count = 1;
  for (const int64_t size : *this) {
    ETUDE_REQUIRE(size >= kAny, "shape {} has a negative size. Sizes are 0 or more", to_string());
    known = known && size != kAny;
    empty = empty || size == 0;
    if (size <= 1) continue;
    // Checked even with a size of 0 or an unknown size, so that strides and partial products never
    // overflow.
    ETUDE_REQUIRE(size <= kMaxCount / count,
                  "the sizes of shape {} multiply to more than 2^48. Use smaller sizes",
                  to_string());
    count *= size;
  }
  return !known ? kAny : empty ? 0 : count;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ",";
    text += (*this)[axis] == kAny ? "?" : std::to_string((*this)[axis]);
  }
  return text + "]";
}

bool Shape::operator==(const Shape& other) const noexcept {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out = a.rank() >= b.rank() ? a : b;
  for (int back = 1; back <= std::min(a.rank(), b.rank()); ++back) {
    const int64_t size_a = a[a.rank() - back], size_b = b[b.rank() - back];
    ETUDE_REQUIRE(size_a == size_b || size_a == 1 || size_b == 1,
                  "shapes {} and {} do not broadcast: sizes {} and {} on axis {} must be equal, or "
                  "one of them 1. Reshape or slice one operand",
                  a.to_string(), b.to_string(), size_a, size_b, -back);
    out.set(out.rank() - back, size_a == 1 ? size_b : size_a);
  }
  return out;
}

int normalize_axis(int64_t axis, int rank) {
  ETUDE_REQUIRE_CODE(kOutOfRange, axis >= -rank && axis < rank,
                     "axis {} is outside [{}, {}) of a value with {} axes", axis, -rank, rank,
                     rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normalize_axes(std::span<const int64_t> axes, int rank) {
  std::vector<int> out;
  for (const int64_t axis : axes) {
    const int a = normalize_axis(axis, rank);
    ETUDE_REQUIRE(std::find(out.begin(), out.end(), a) == out.end(),
                  "axis {} is given twice. Name each axis once", axis);
    out.push_back(a);
  }
  return out;
}

}  // namespace etude
