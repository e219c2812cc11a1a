// SPDX-License-Identifier: Apache-2.0
#include "etude/core/dtype_functions.h"

#include <cmath>

#include "etude/base/check.h"
#include "etude/core/op/promotion.h"

namespace etude {

FInfo finfo(DType dtype) {
  const auto make = [&](int bits, int digits, int max_exponent, int min_exponent) {
    const double max = std::ldexp(2 - std::ldexp(1.0, 1 - digits), max_exponent);
    return FInfo{bits, std::ldexp(1.0, 1 - digits),   max,
                 -max, std::ldexp(1.0, min_exponent), real_dtype(dtype)};
  };
  switch (real_dtype(dtype)) {
    case kFloat16:
      return make(16, 11, 15, -14);
    case kBFloat16:
      return make(16, 8, 127, -126);
    case kFloat32:
      return make(32, 24, 127, -126);
    case kFloat64:
      return make(64, 53, 1023, -1022);
    default:
      break;
  }
  ETUDE_THROW(kInvalidArgument,
              "finfo needs a floating or complex dtype, but got {}. Use iinfo for integers",
              name(dtype));
}

IInfo iinfo(DType dtype) {
  ETUDE_REQUIRE(is_integer(dtype),
                "iinfo needs an integer dtype, but got {}. Use finfo for floating ones",
                name(dtype));
  const auto bits = static_cast<int>(8 * itemsize(dtype));
  const bool is_signed = kSignedIntegers.contains(dtype);
  const uint64_t all = ~uint64_t{0} >> (64 - bits);
  return {bits, is_signed ? all >> 1 : all, is_signed ? -static_cast<int64_t>(all >> 1) - 1 : 0,
          dtype};
}

bool can_cast(DType from, DType to) { return from == to || promote(from, to) == to; }

bool isdtype(DType dtype, DTypeSet kinds) { return kinds.contains(dtype); }

bool isdtype(DType dtype, std::string_view kind) {
  if (kind == "bool") return dtype == kBool;
  if (kind == "signed integer") return kSignedIntegers.contains(dtype);
  if (kind == "unsigned integer") return kUnsignedIntegers.contains(dtype);
  if (kind == "integral") return is_integer(dtype);
  if (kind == "real floating") return is_floating(dtype);
  if (kind == "complex floating") return is_complex(dtype);
  ETUDE_REQUIRE(kind == "numeric",
                "there is no kind \"{}\". Kinds are bool, signed integer, unsigned integer, "
                "integral, real floating, "
                "complex floating and numeric",
                kind);
  return kNumeric.contains(dtype);
}

namespace internal {

DType require_promoted(DType a, DType b) {
  const std::optional<DType> both = meeting_dtype(a, b);
  ETUDE_REQUIRE(both.has_value(),
                "{} and {} do not promote to one dtype. Cast one of them with astype", name(a),
                name(b));
  return *both;
}

}  // namespace internal
}  // namespace etude
