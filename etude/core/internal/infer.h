// SPDX-License-Identifier: Apache-2.0
// A context that knows only types: calls return abstract tensors. For shape inference, summaries
// and finding the operands that a rule reads.
#pragma once

#include "etude/core/context/context.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Runs the type rule of a record for its checks. throws: the errors of the rule.
void check_types(const Op& op, Operands operands, const Attrs& attrs);

class TypeContext : public Context {
 public:
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
};

}  // namespace internal
}  // namespace etude
