// SPDX-License-Identifier: Apache-2.0
// Queries on dtypes, and the constants of the Python Array API standard. For casts see astype.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <string_view>

#include "etude/core/dtype.h"
#include "etude/core/index.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

inline constexpr double e = std::numbers::e;
inline constexpr double pi = std::numbers::pi;
inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr NewAxis newaxis;

// Limits of a floating dtype, or of the real and imaginary parts of a complex dtype.
struct FInfo {
  int bits;
  double eps;  // the gap between 1 and the next larger number
  double max;
  double min;  // -max
  double smallest_normal;
  DType dtype;
};
// throws: kInvalidArgument for other dtypes.
FInfo finfo(DType dtype);

// Limits of an integer dtype.
struct IInfo {
  int bits;
  uint64_t max;
  int64_t min;
  DType dtype;
};
// throws: kInvalidArgument for other dtypes.
IInfo iinfo(DType dtype);

// Whether promote(from, to) is `to`, as in the Array API standard.
bool can_cast(DType from, DType to);
// Whether `dtype` is of this kind: "bool", "signed integer", "unsigned integer", "integral", "real
// floating", "complex floating" or "numeric". throws: kInvalidArgument for any other text.
bool isdtype(DType dtype, std::string_view kind);
bool isdtype(DType dtype, DTypeSet kinds);

namespace internal {
inline DType dtype_in(DType x) { return x; }
inline DType dtype_in(const Tensor& x) { return x.dtype(); }
// Returns the common dtype of a and b on this thread. throws: kInvalidArgument if there is none.
DType require_promoted(DType a, DType b);
}  // namespace internal

// Returns the common dtype of these tensors and dtypes, by promote(). If the kinds differ, returns
// the dtype of the highest kind (in ascending order: bool, integers, floating and complex), unless
// ambient().promotion is strict.
// throws: kInvalidArgument if there is no common dtype.
template <class First, class... Rest>
DType result_type(const First& first, const Rest&... rest) {
  DType dtype = internal::dtype_in(first);
  ((dtype = internal::require_promoted(dtype, internal::dtype_in(rest))), ...);
  return dtype;
}

}  // namespace etude
