// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/internal/given.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/literal_reader.h"

namespace etude::internal {
namespace {

// Whether an integer dtype, or bool, has this number.
bool holds(DType dtype, double x) {
  if (dtype == kBool) return x == 0 || x == 1;
  const bool is_unsigned =
      dtype == kUInt8 || dtype == kUInt16 || dtype == kUInt32 || dtype == kUInt64;
  const int bits = static_cast<int>(itemsize(dtype)) * 8;
  const double low = is_unsigned ? 0 : -std::ldexp(1.0, bits - 1);
  const double end = std::ldexp(1.0, is_unsigned ? bits : bits - 1);
  return std::trunc(x) == x && x >= low && x < end;
}

// Whether `to` is the integer `value` of dtype `from`; a double cannot represent all of them.
bool is_same_integer(const void* to, DType dtype, double made, const void* value, DType from,
                     double real) {
  int64_t back = 0;
  convert_elements(&back, from, to, dtype, 1);
  const auto bytes = static_cast<std::size_t>(itemsize(from));
  return std::memcmp(&back, value, bytes) == 0 && (made < 0) == (real < 0);
}

// Writes one number of dtype `from` to `to`. `index`: of the element, for messages.
void put(char* to, DType dtype, const void* value, DType from, int64_t index, const Shape& shape,
         const HostTarget& target) {
  double real = 0, made = 0;
  convert_elements(&real, kFloat64, value, from, 1);
  convert_elements(to, dtype, value, from, 1);
  convert_elements(&made, kFloat64, to, dtype, 1);
  bool fits = std::isfinite(made) || !std::isfinite(real);
  if (is_integer(dtype) && is_integer(from)) {
    fits = is_same_integer(to, dtype, made, value, from, real);
  } else if (is_integer(dtype) || dtype == kBool) {
    fits = holds(dtype, real);
  }
  if (fits) return;
  std::vector<int64_t> at(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0; index /= shape[axis]) {
    at[static_cast<std::size_t>(axis)] = index % shape[axis];
  }
  ETUDE_THROW(
      kInvalidArgument,
      "{}element [{}] is {}, which {} does not hold. Give numbers that it holds, or another "
      "dtype in the signature",
      target.what, fmt::join(at, ","), real, name(dtype));
}

Tensor read_leaves(const LiteralReader& reader, const HostTarget& target) {
  const DType dtype = target.dtype != nullptr ? *target.dtype : reader.dtype();
  Tensor out = make_tensor(intern_type(dtype, reader.shape));
  char* to = static_cast<char*>(internal::new_host_elements(out));
  int64_t index = 0;
  for (const Literal* leaf : reader.leaves) {
    const double real = leaf->real();
    const int64_t integer = leaf->integer();
    const bool is_real = leaf->kind() == Literal::Kind::kReal;
    put(to, dtype, is_real ? static_cast<const void*>(&real) : &integer,
        is_real ? kFloat64 : kInt64, index++, reader.shape, target);
    to += itemsize(dtype);
  }
  return out;
}

}  // namespace

Tensor read_literals(const HostSource& source, const HostTarget& target) {
  LiteralReader reader(target.what);
  reader.read({static_cast<const Literal*>(source.data), source.size}, 0);
  return read_leaves(reader, target);
}

Tensor read_literal(const Literal& number, const HostTarget& target) {
  LiteralReader reader;
  reader.leaves.push_back(&number);
  return read_leaves(reader, target);
}

void HostRows::list(int level, std::size_t size) { enter_list(shape_, level, size, target_.what); }

void HostRows::numbers(const void* values, std::size_t count) {
  const auto* first = static_cast<const std::byte*>(values);
  bytes_.insert(bytes_.end(), first, first + count * static_cast<std::size_t>(itemsize(from_)));
}

Tensor HostRows::finish(int rank) {
  while (shape_.rank() < rank) shape_.push_back(0);
  const DType dtype = target_.dtype != nullptr ? *target_.dtype : from_;
  Tensor out = make_tensor(intern_type(dtype, shape_));
  char* to = static_cast<char*>(internal::new_host_elements(out));
  if (dtype == from_) {
    if (!bytes_.empty()) std::memcpy(to, bytes_.data(), bytes_.size());
    return out;
  }
  const std::byte* value = bytes_.data();
  for (int64_t i = 0; i < shape_.count(); ++i) {
    put(to, dtype, value, from_, i, shape_, target_);
    to += itemsize(dtype);
    value += itemsize(from_);
  }
  return out;
}

}  // namespace etude::internal
