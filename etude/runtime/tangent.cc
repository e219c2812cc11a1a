// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/tangent.h"

#include "etude/core/arg.h"
#include "etude/core/builtin.h"
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

}  // namespace etude
