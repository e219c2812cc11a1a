// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/tangent.h"

#include "etude/core/arg.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/core/context.h"
#include "etude/core/index.h"

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

Tensor DotOfLeaves::root() const { return sqrt(sum.has_value() ? sum : Tensor(0.0F)); }

}  // namespace internal
}  // namespace etude
