// SPDX-License-Identifier: Apache-2.0
// Element types, and sets of element types for op records. Ops on float16 and bfloat16 compute in
// float32. The op astype converts values.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "etude/base/float16.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class DType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};
inline constexpr int kDTypeCount = 15;

namespace internal {
// Categories of element types for arithmetic.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
}  // namespace internal

inline constexpr DType kBool = DType::kBool;
inline constexpr DType kInt8 = DType::kInt8;
inline constexpr DType kInt16 = DType::kInt16;
inline constexpr DType kInt32 = DType::kInt32;
inline constexpr DType kInt64 = DType::kInt64;
inline constexpr DType kUInt8 = DType::kUInt8;
inline constexpr DType kUInt16 = DType::kUInt16;
inline constexpr DType kUInt32 = DType::kUInt32;
inline constexpr DType kUInt64 = DType::kUInt64;
inline constexpr DType kFloat16 = DType::kFloat16;
inline constexpr DType kBFloat16 = DType::kBFloat16;
inline constexpr DType kFloat32 = DType::kFloat32;
inline constexpr DType kFloat64 = DType::kFloat64;
inline constexpr DType kComplex64 = DType::kComplex64;
inline constexpr DType kComplex128 = DType::kComplex128;

// A set of dtypes, for op records.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr explicit DTypeSet(uint32_t bits) : bits_(bits) {}
  constexpr DTypeSet(DType d) : bits_(1u << static_cast<int>(d)) {}
  constexpr bool contains(DType d) const { return (bits_ >> static_cast<int>(d)) & 1; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) {
    return DTypeSet(a.bits_ | b.bits_);
  }
  friend constexpr DTypeSet operator&(DTypeSet a, DTypeSet b) {
    return DTypeSet(a.bits_ & b.bits_);
  }
  friend constexpr bool operator==(DTypeSet, DTypeSet) = default;

 private:
  uint32_t bits_ = 0;
};

inline constexpr DTypeSet kSignedIntegers = DTypeSet(kInt8) | kInt16 | kInt32 | kInt64;
inline constexpr DTypeSet kUnsignedIntegers = DTypeSet(kUInt8) | kUInt16 | kUInt32 | kUInt64;
inline constexpr DTypeSet kIntegers = kSignedIntegers | kUnsignedIntegers;
inline constexpr DTypeSet kFloating = DTypeSet(kFloat16) | kBFloat16 | kFloat32 | kFloat64;
inline constexpr DTypeSet kComplex = DTypeSet(kComplex64) | kComplex128;
inline constexpr DTypeSet kReal = kIntegers | kFloating;
inline constexpr DTypeSet kFloatingComplex = kFloating | kComplex;
inline constexpr DTypeSet kNumeric = kReal | kComplex;
inline constexpr DTypeSet kIntegersBool = kIntegers | kBool;
inline constexpr DTypeSet kAnyDType = kNumeric | kBool;

// Returns the name of a dtype, as in the Array API standard: "float32" for kFloat32.
std::string_view name(DType dtype);
// Returns the dtype with this name; empty if there is none.
std::optional<DType> dtype_named(std::string_view name);
// Returns the size of one element in bytes: 1 to 16.
int64_t itemsize(DType dtype);
// Returns the names of the dtypes, for messages: "float32, float64".
std::string describe(DTypeSet set);

constexpr bool is_floating(DType d) { return kFloating.contains(d); }
constexpr bool is_complex(DType d) { return kComplex.contains(d); }
constexpr bool is_integer(DType d) { return kIntegers.contains(d); }
// Whether derivatives with respect to values of this dtype exist.
constexpr bool is_differentiable(DType d) { return kFloatingComplex.contains(d); }
// Returns float32 for complex64 and float64 for complex128. Other dtypes are returned unchanged.
constexpr DType real_dtype(DType d) {
  return d == kComplex64 ? kFloat32 : d == kComplex128 ? kFloat64 : d;
}
// Returns the dtype to which a and b promote in the Array API table. Floating and complex dtypes
// promote together. Empty for bool with another dtype, for an integer with a floating or complex
// dtype, and for uint64 with a signed integer.
std::optional<DType> promote(DType a, DType b);

// The dtype of a C++ element type. Defined only for the types below.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "etude: this C++ type has no dtype");
  return kBool;
}();
template <>
inline constexpr DType dtype_of<bool> = kBool;
template <>
inline constexpr DType dtype_of<int8_t> = kInt8;
template <>
inline constexpr DType dtype_of<int16_t> = kInt16;
template <>
inline constexpr DType dtype_of<int32_t> = kInt32;
template <>
inline constexpr DType dtype_of<int64_t> = kInt64;
template <>
inline constexpr DType dtype_of<long long> = kInt64;
template <>
inline constexpr DType dtype_of<uint8_t> = kUInt8;
template <>
inline constexpr DType dtype_of<uint16_t> = kUInt16;
template <>
inline constexpr DType dtype_of<uint32_t> = kUInt32;
template <>
inline constexpr DType dtype_of<uint64_t> = kUInt64;
template <>
inline constexpr DType dtype_of<unsigned long long> = kUInt64;
template <>
inline constexpr DType dtype_of<Float16> = kFloat16;
template <>
inline constexpr DType dtype_of<BFloat16> = kBFloat16;
template <>
inline constexpr DType dtype_of<float> = kFloat32;
template <>
inline constexpr DType dtype_of<double> = kFloat64;
template <>
inline constexpr DType dtype_of<std::complex<float>> = kComplex64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = kComplex128;

// Calls f.template operator()<T>() with the C++ element type of `dtype` and returns its result.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case kBool:
      return f.template operator()<bool>();
    case kInt8:
      return f.template operator()<int8_t>();
    case kInt16:
      return f.template operator()<int16_t>();
    case kInt32:
      return f.template operator()<int32_t>();
    case kInt64:
      return f.template operator()<int64_t>();
    case kUInt8:
      return f.template operator()<uint8_t>();
    case kUInt16:
      return f.template operator()<uint16_t>();
    case kUInt32:
      return f.template operator()<uint32_t>();
    case kUInt64:
      return f.template operator()<uint64_t>();
    case kFloat16:
      return f.template operator()<Float16>();
    case kBFloat16:
      return f.template operator()<BFloat16>();
    case kFloat32:
      return f.template operator()<float>();
    case kFloat64:
      return f.template operator()<double>();
    case kComplex64:
      return f.template operator()<std::complex<float>>();
    case kComplex128:
      break;
  }
  return f.template operator()<std::complex<double>>();
}

}  // namespace etude
