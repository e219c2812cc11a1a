// SPDX-License-Identifier: Apache-2.0
// A context that knows only types: calls give ghosts. For shape inference, summaries and for finding
// out what a rule reads.
#pragma once

#include "etude/core/context.h"

namespace etude::internal {

class TypeContext : public Context {
 public:
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
};

}  // namespace etude::internal
