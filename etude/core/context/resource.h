// SPDX-License-Identifier: Apache-2.0
// Resources: operands for state that calls read and write. A resource is a tensor without elements.
// It has the type of the stored value, and the state itself (the cell of a Variable) is attached to
// it.
#pragma once

#include <memory>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A resource for `state`, held weakly. Its value id is the identity of the state.
Tensor make_resource(const Type* type, std::weak_ptr<void> state);
bool is_resource(const Tensor& x) noexcept;
// The state; null if it is gone. x is a resource.
std::shared_ptr<void> state_of(const Tensor& x) noexcept;
// The result of a read after an assignment of `x` (op read_assigned). `before` is the value of the
// resource at the start of the graph. A cotangent of the result goes to `before`, none to `x`.
Tensor read_assigned(const Tensor& x, const Tensor& before);

}  // namespace internal
}  // namespace etude
