// SPDX-License-Identifier: Apache-2.0
// Numbers of attributes that become elements. Part of etude/ops/shape.
#pragma once

#include <cmath>
#include <string_view>

#include "etude/base/check.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/convert.h"

namespace etude::ops {

// An infinite number becomes the limit of an integer dtype, as the border of a maximum needs.
inline void require_fill(std::string_view attribute, double value, DType dtype) {
  if (!is_integer(dtype) || std::isinf(value)) return;
  char element[sizeof(int64_t)];
  double round_trip = 0;
  internal::convert_elements(element, dtype, &value, kFloat64, 1);
  internal::convert_elements(&round_trip, kFloat64, element, dtype, 1);
  ETUDE_REQUIRE(round_trip == value,
                "{} is {}, which is not a number of {}. Give an integer in its range, or cast with "
                "astype first",
                attribute, value, name(dtype));
}

}  // namespace etude::ops
