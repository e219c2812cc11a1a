// SPDX-License-Identifier: Apache-2.0
// Forward mode: a context that carries tangents with values. Nested contexts have separate
// tangents, so perturbations are never confused.
#pragma once

#include "etude/core/context/context.h"
#include "etude/core/internal/followed_values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// On the context stack for its lifetime.
// threads: confined to the thread that made it.
class JvpContext final : public Context {
 public:
  JvpContext();
  ~JvpContext() override;

  // Sets the tangent of `x` to `t`, of the same shape and dtype.
  void set_tangent(const Tensor& x, const Tensor& t);
  // The tangent of a value; absent if it does not depend on anything with a tangent.
  Tensor tangent(const Tensor& x) const;

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;

 private:
  internal::FollowedValues tangents_;
};

}  // namespace etude
