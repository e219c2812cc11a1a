// SPDX-License-Identifier: Apache-2.0
#include "etude/stablehlo/number_text.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "etude/core/internal/convert.h"

namespace etude::stablehlo::internal {
namespace {

template <class T>
T read(const uint8_t* element) {
  T out;
  std::memcpy(&out, element, sizeof(T));
  return out;
}

// Every floating dtype is exact as a double, and MLIR reads decimals as doubles.
std::string decimal(double value) {
  std::string out = fmt::format("{}", value);
  if (out.find('.') != std::string::npos) return out;
  const std::size_t exponent = out.find('e');
  out.insert(exponent == std::string::npos ? out.size() : exponent, ".0");
  return out;
}

std::string real_text(const uint8_t* element, DType dtype) {
  double value = 0;
  etude::internal::convert_elements(&value, kFloat64, element, dtype, 1);
  if (std::isfinite(value)) return decimal(value);
  std::string out = "0x";
  for (int64_t i = itemsize(dtype) - 1; i >= 0; --i) out += fmt::format("{:02X}", element[i]);
  return out;
}

}  // namespace

std::string number_text(const uint8_t* element, DType dtype) {
  if (dtype == kBool) return *element != 0 ? "true" : "false";
  if (is_floating(dtype)) return real_text(element, dtype);
  if (is_complex(dtype)) {
    const DType part = real_dtype(dtype);
    return fmt::format("({},{})", real_text(element, part),
                       real_text(element + itemsize(part), part));
  }
  if (dtype == kUInt64) return fmt::format("{}", read<uint64_t>(element));
  int64_t value = 0;
  etude::internal::convert_elements(&value, kInt64, element, dtype, 1);
  return fmt::format("{}", value);
}

}  // namespace etude::stablehlo::internal
