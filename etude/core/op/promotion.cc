// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/promotion.h"

#include "etude/core/call/builtin.h"
#include "etude/core/context/ambient.h"

namespace etude::internal {
namespace {

bool is_strict() noexcept { return ambient().promotion == Promotion::kStrict; }

// The rank of kinds, across which promote() returns nothing.
int rank_of_kind(DType dtype) { return dtype == kBool ? 0 : is_integer(dtype) ? 1 : 2; }

}  // namespace

std::optional<DType> meeting_dtype(DType a, DType b, bool casts_integers) {
  if (const std::optional<DType> both = promote(a, b)) return both;
  const int rank_a = rank_of_kind(a), rank_b = rank_of_kind(b);
  if (rank_a == rank_b) return std::nullopt;
  if (is_strict() && !(casts_integers && rank_a > 0 && rank_b > 0)) return std::nullopt;
  return rank_a > rank_b ? a : b;
}

DType dtype_with_number(DType dtype, bool is_real) {
  if (is_strict() || is_differentiable(dtype)) return dtype;
  if (is_real) return ambient().default_dtype;
  return dtype == kBool ? kInt32 : dtype;
}

DType floating_for(DType dtype) {
  const bool casts = is_integer(dtype) || (dtype == kBool && !is_strict());
  return casts ? ambient().default_dtype : dtype;
}

Tensor for_target(const Tensor& value, DType dtype, CallSite where) {
  return meeting_dtype(value.dtype(), dtype) == dtype ? cast(value, dtype, where) : value;
}

}  // namespace etude::internal
