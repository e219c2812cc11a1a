// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/tensor_gradient.h"

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"

namespace etude::internal {

void FreshLeaves::operator()(Tensor& leaf) {
  if (!leaf.has_value() || !is_differentiable(leaf.dtype())) return;
  leaf = identity(to_dense(leaf));  // a tape follows whole values
  tape_.watch(leaf);
}

void FreshLeaves::operator()(Variable& leaf) { tape_.watch(leaf); }

void LetGo::operator()(Tensor& leaf) const {
  if (!leaf.has_value() || TensorAccess::is_sparse(leaf)) return;
  const uint64_t id = TensorAccess::id(leaf);
  leaf = make_abstract(leaf.type());
  TensorAccess::rep(leaf)->id.store(id, std::memory_order_relaxed);
}

void require_scalar_result(const Tensor& value, CallSite where) {
  located("gradient", where, [&] {
    ETUDE_REQUIRE(value.has_value(), "the function returned nothing. Does it return its value?");
    ETUDE_REQUIRE(value.size() == 1,
                  "gradient needs a scalar result, this one has shape {}; use pullback or jacobian",
                  value.shape().to_string());
    ETUDE_REQUIRE(is_differentiable(value.dtype()),
                  "gradient needs a floating result, this one is {}. Cast it with astype",
                  name(value.dtype()));
  });
}

void warn_independent(CallSite where, std::size_t argument, std::string_view type,
                      const GradientTape& tape, const Tensor& value, const LeafList& leaves) {
  const auto message = [&] {
    std::string last;
    for (const LeafRef& leaf : leaves.items()) {
      if (leaf.tensor == nullptr || !last.empty()) continue;
      const std::string why = tape.explain(value, *leaf.tensor);
      if (why.starts_with("last dependent value")) last = "; " + why;
    }
    return fmt::format(
        "gradient at {}:{}: the result does not depend on argument {} ({}); its "
        "gradient is zero{}",
        where.file, where.line, argument, type, last);
  };
  diagnose(diagnostics().independent_result,
           fmt::format("independent {} {}:{}", argument, where.file, where.line), message);
}

}  // namespace etude::internal
