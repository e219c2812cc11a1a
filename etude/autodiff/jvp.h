// SPDX-License-Identifier: Apache-2.0
// Forward mode: a context that carries tangents with values. Nested contexts have separate
// tangents, so perturbations are never confused.
#pragma once

#include "etude/core/context/context.h"
#include "etude/core/internal/followed_values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The context is on the context stack for its lifetime.
// threads: confined to the thread that made it.
class JvpContext final : public Context {
 public:
  JvpContext();
  ~JvpContext() override;

  // Sets the tangent of `x` to `t`. throws: kInvalidArgument for a sparse `x`, or if the types of
  // `x` and `t` differ.
  void set_tangent(const Tensor& x, const Tensor& t);
  // Returns the tangent of `x`; absent if `x` does not depend on a value with a tangent.
  Tensor tangent(const Tensor& x) const;

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;

 private:
  internal::FollowedValues tangents_;
};

}  // namespace etude
