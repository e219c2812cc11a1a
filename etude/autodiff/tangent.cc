// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/tangent.h"

#include "etude/core/call/arg.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/context.h"
#include "etude/core/dtype_functions.h"
#include "etude/core/index.h"
#include "etude/core/internal/call.h"
#include "etude/core/length.h"

namespace etude {

Tensor DifferentiableTraits<Tensor>::zero(const Tensor& x) {
  if (!x.has_value() || !is_differentiable(x.dtype())) return {};
  return internal::full(x.type(), 0);
}

void DifferentiableTraits<Tensor>::move(Tensor& x, const Tensor& by) {
  if (!by.has_value()) return;
  if (const auto rows = by.slices()) {
    set_index(x, {IndexItem(rows->indices)}, Arg(rows->values), ScatterMode::kAdd, {});
  } else {
    x += by;
  }
}

namespace internal {

void DotOfLeaves::operator()(const Tensor& a, const Tensor& b) {
  if (!a.has_value() || !b.has_value()) return;
  Tensor part = dot(to_dense(a), to_dense(b));
  sum = sum.has_value() ? add(std::move(sum), part) : std::move(part);
}

void LengthOfLeaves::operator()(const Tensor& leaf) {
  if (leaf.has_value()) leaves_.push_back(leaf);
}

Tensor LengthOfLeaves::length() const {
  if (leaves_.empty()) return Tensor(0.0F);
  DType dtype = real_dtype(leaves_.front().dtype());
  for (const Tensor& leaf : leaves_) dtype = result_type(dtype, real_dtype(leaf.dtype()));
  return cast(internal::length(leaves_), dtype);
}

}  // namespace internal
}  // namespace etude
