// SPDX-License-Identifier: Apache-2.0
#include "etude/core/dtype.h"

#include <array>
#include <cstddef>
#include <string>

namespace etude {
namespace {

struct Row {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Row, kDTypeCount> kRows = {{
    {"bool", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"complex64", 8},
    {"complex128", 16},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

DType signed_of_bytes(int64_t bytes) {
  return bytes == 1 ? kInt8 : bytes == 2 ? kInt16 : bytes == 4 ? kInt32 : kInt64;
}

std::optional<DType> promote_integers(DType a, DType b) {
  const bool signed_a = kSignedIntegers.contains(a), signed_b = kSignedIntegers.contains(b);
  const int64_t bytes_a = itemsize(a), bytes_b = itemsize(b);
  if (signed_a == signed_b) return bytes_a >= bytes_b ? a : b;
  const int64_t bytes_signed = signed_a ? bytes_a : bytes_b;
  const int64_t bytes_unsigned = signed_a ? bytes_b : bytes_a;
  if (bytes_signed > bytes_unsigned) return signed_of_bytes(bytes_signed);
  if (bytes_unsigned == 8) return std::nullopt;  // uint64 with a signed type: no integer holds both
  return signed_of_bytes(bytes_unsigned * 2);
}

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
int64_t itemsize(DType dtype) { return row(dtype).bytes; }

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kRows[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string describe(DTypeSet set) {
  std::string text;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!set.contains(dtype)) continue;
    if (!text.empty()) text += ", ";
    text += name(dtype);
  }
  return text;
}

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (is_integer(a) && is_integer(b)) return promote_integers(a, b);
  const bool inexact = is_differentiable(a) && is_differentiable(b);
  if (!inexact) return std::nullopt;
  const bool wide = real_dtype(a) == kFloat64 || real_dtype(b) == kFloat64;
  if (is_complex(a) || is_complex(b)) return wide ? kComplex128 : kComplex64;
  return wide ? kFloat64 : kFloat32;  // float16 with bfloat16 meet in float32
}

}  // namespace etude
