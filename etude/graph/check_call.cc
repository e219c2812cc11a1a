// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/check_call.h"

#include "etude/base/check.h"
#include "etude/core/context.h"
#include "etude/core/located.h"

namespace etude::internal {

Types check_call(const Op& op, std::span<const Type* const> operands, const Attrs& attrs) {
  require_count(op, operands.size());
  const Type* shared = nullptr;
  std::size_t shared_at = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Type* type = operands[i];
    if (type == nullptr) {
      ETUDE_REQUIRE(op.operand(i).optional, "{} is absent", operand_text(op, i));
      continue;
    }
    const DTypeSet set = op.operand_dtypes(i);
    ETUDE_REQUIRE(set.contains(type->dtype()), "{} is {}, but must be one of {}",
                  operand_text(op, i), name(type->dtype()), describe(set));
    if (!op.operand(i).dtypes.empty()) continue;
    if (shared == nullptr) {
      shared = type;
      shared_at = i;
    }
    ETUDE_REQUIRE(shared->dtype() == type->dtype(),
                  "{} is {} and {} is {}; in a graph they have one dtype. Cast one with astype",
                  operand_text(op, shared_at), name(shared->dtype()), operand_text(op, i),
                  name(type->dtype()));
  }
  Types results = infer_types(op, operands, attrs);
  for (const Type* type : results) {
    ETUDE_REQUIRE(type == nullptr || type->count() != kAny,
                  "gives {}, with a size that depends on data, which graphs do not hold",
                  type->to_string());
  }
  return results;
}

}  // namespace etude::internal
