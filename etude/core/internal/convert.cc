// SPDX-License-Identifier: Apache-2.0
#include "etude/core/internal/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace etude::internal {
namespace {

template <class To>
To from_double(double value) {
  if constexpr (std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
    if (value <= low) return std::numeric_limits<To>::min();
    if (value >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIsComplex<From>) {
    if constexpr (kIsComplex<To>) {
      return To(static_cast<typename To::value_type>(value.real()),
                static_cast<typename To::value_type>(value.imag()));
    } else if constexpr (std::is_same_v<To, bool>) {
      return value != From(0);
    } else {
      return convert<To>(value.real());
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (kIsComplex<To>) {
    return To(static_cast<typename To::value_type>(value));
  } else if constexpr (kIsHalf<To>) {
    using Wide = std::conditional_t<std::is_same_v<From, float>, float, double>;
    return To(static_cast<Wide>(value));
  } else if constexpr (std::is_floating_point_v<From>) {
    return from_double<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(value);  // integers and bool: exact, or wrapped
  }
}

}  // namespace

void convert_elements(void* out, DType out_dtype, const void* in, DType in_dtype, int64_t count) {
  if (out_dtype == in_dtype) {
    if (count > 0) std::memcpy(out, in, static_cast<std::size_t>(count * itemsize(in_dtype)));
    return;
  }
  visit_dtype(in_dtype, [&]<class From>() {
    visit_dtype(out_dtype, [&]<class To>() {
      const From* from = static_cast<const From*>(in);
      To* to = static_cast<To*>(out);
      for (int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
    });
  });
}

}  // namespace etude::internal
