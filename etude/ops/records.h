// SPDX-License-Identifier: Apache-2.0
// Small rules, texts and error cases that records of several files share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/core/op/rules.h"
#include "etude/core/tensor.h"
#include "etude/ops.h"

namespace etude::ops {

// The reason why a record has no derivative.
inline constexpr std::string_view kPiecewiseConstant = "the result is piecewise constant";

// Namespaces of user functions whose records are in several files.
inline constexpr std::string_view kLinalgSpace = "linalg";
inline constexpr std::string_view kImageSpace = "image";

// An axis, or a position in a list, as an index of the standard library. Not negative.
inline std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// The result has the type of the first operand.
inline Types same_type(const TypeCall& call) { return {call.types[0]}; }

// Adds to a sum. An absent sum counts as 0.
inline void add_to(Tensor& sum, const Tensor& part) { sum = sum.has_value() ? sum + part : part; }

// The errors of an op of one operand for dtypes that it does not take.
inline std::vector<ErrorCase> errors_of_integers() {
  return {{{"int32[2]"}, "operand 'x' is int32, but must be one of"}};
}
inline std::vector<ErrorCase> errors_of_all_but_reals() {
  return {{{"int32[2]"}, "operand 'x' is int32, but must be one of"},
          {{"complex64[2]"}, "operand 'x' is complex64, but must be one of"}};
}

}  // namespace etude::ops
