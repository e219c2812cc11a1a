// SPDX-License-Identifier: Apache-2.0
// The Differentiable protocol: types with a tangent, the zero tangent, and moving along a tangent.
// Used by every gradient, optimiser and layer. Numbers are in protocol.h, containers in
// containers.h, plain structs in aggregates.h, sums and multiples in tangent_math.h. This header
// does not depend on tensors, which specialise DifferentiableTraits like any other type.
#pragma once

#include <type_traits>

#include "etude/diff/aggregates.h"
#include "etude/diff/containers.h"
#include "etude/diff/freezable.h"
#include "etude/diff/layer_state.h"
#include "etude/diff/protocol.h"
#include "etude/diff/tangent_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns true if Layer and its result for arguments X are differentiable. Otherwise a compile-time
// error reports the missing property. For a static_assert next to a public layer type:
//
//   static_assert(is_differentiable_layer<MyLayer, Tensor>());
template <class Layer, class... X>
consteval bool is_differentiable_layer() {
  static_assert(std::is_invocable_v<const Layer&, const X&...>,
                "etude: operator() const does not take these arguments");
  static_assert(Differentiable<Layer>,
                "etude: operator() is not differentiable with respect to *this; make its fields "
                "Differentiable or wrap them in etude::NoDerivative<>");
  static_assert(Differentiable<std::decay_t<std::invoke_result_t<const Layer&, const X&...>>>,
                "etude: the result of operator() is not Differentiable");
  return true;
}

}  // namespace etude
