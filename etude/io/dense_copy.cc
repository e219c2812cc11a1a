// SPDX-License-Identifier: Apache-2.0
#include "etude/io/dense_copy.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "etude/base/check.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"

namespace etude::internal {

uint64_t DenseCopy::checked_bytes() const {
  ETUDE_REQUIRE_CODE(kUnimplemented, shape.size() <= static_cast<std::size_t>(kMaxRank),
                     "{}: an array has {} axes; Etude's tensors have up to {}", name, shape.size(),
                     kMaxRank);
  int64_t bytes = static_cast<int64_t>(element);
  bool is_empty = false;
  for (const int64_t size : shape) {
    ETUDE_REQUIRE_CODE(kDataLoss, size >= 0, "{}: an array has a size of {}", name, size);
    is_empty = is_empty || size == 0;
    const bool overflows = size > 0 && __builtin_mul_overflow(bytes, size, &bytes);
    ETUDE_REQUIRE_CODE(kDataLoss, !overflows,
                       "{}: the sizes {} of an array make more than 2^63 bytes", name,
                       fmt::join(shape, " x "));
  }
  return is_empty ? 0 : static_cast<uint64_t>(bytes);
}

std::vector<int64_t> DenseCopy::rows_first() const {
  std::vector<int64_t> out(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    out[axis - 1] = out[axis] * std::max<int64_t>(1, shape[axis]);
  }
  return out;
}

std::vector<int64_t> DenseCopy::columns_first() const {
  std::vector<int64_t> out(shape.size(), 1);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) {
    out[axis] = out[axis - 1] * std::max<int64_t>(1, shape[axis - 1]);
  }
  return out;
}

namespace {

// Copies the elements below an axis, and returns the place after them.
uint8_t* copy_axis(const DenseCopy& copy, const uint8_t* from, std::size_t axis, uint8_t* to) {
  const std::size_t element = copy.element;
  if (axis == copy.shape.size()) {
    std::memcpy(to, from, element);
    return to + element;
  }
  const auto step = static_cast<std::size_t>(copy.strides[axis]) * element;
  for (int64_t i = 0; i < copy.shape[axis]; ++i) {
    to = copy_axis(copy, from + static_cast<std::size_t>(i) * step, axis + 1, to);
  }
  return to;
}

}  // namespace

Tensor DenseCopy::make(DType dtype, ByteSource source, uint64_t held) const {
  Tensor out = make_tensor(intern_type(dtype, Shape(shape)));
  const uint64_t count = checked_bytes() / element;
  if (count == 0) return out;
  int64_t last = first;
  bool fits = first >= 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    int64_t way = 0;
    fits = fits && strides[axis] >= 0 &&
           !__builtin_mul_overflow(shape[axis] - 1, strides[axis], &way) &&
           !__builtin_add_overflow(last, way, &last);
  }
  ETUDE_REQUIRE_CODE(kDataLoss, fits && static_cast<uint64_t>(last) < held / element,
                     "{}: offset {}: an array reads elements {} to {} of {} that there are", name,
                     offset, first, last, held / element);
  auto* to = static_cast<uint8_t*>(etude::internal::host_elements_for_writing(out));
  const uint64_t first_byte = static_cast<uint64_t>(first) * element;
  if (strides == rows_first()) {
    source.read(begin + first_byte, {to, count * element});
  } else {
    std::vector<uint8_t> room;
    copy_axis(*this, source.view(begin, held, room).data() + first_byte, 0, to);
  }
  if (swap_bytes) {
    const std::size_t part = is_complex ? element / 2 : element;
    for (std::size_t i = 0; i < count * element; i += part) std::reverse(to + i, to + i + part);
  }
  if (dtype == kBool) {  // anything else would be undefined behaviour later on
    const auto* bad = std::find_if(to, to + count, [](uint8_t byte) { return byte > 1; });
    ETUDE_REQUIRE_CODE(kDataLoss, bad == to + count,
                       "{}: offset {}: bool {} of an array is {}, but must be 0 or 1", name, offset,
                       bad - to, *bad);
  }
  return out;
}

}  // namespace etude::internal
