// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/internal/captures.h"

#include <utility>

#include "etude/autodiff/traced_rule.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/value_observer.h"
#include "etude/core/op/op.h"
#include "etude/stage/trace.h"

namespace etude::internal {

CaptureList::CaptureList(bool is_needed, Noted noted)
    : first_inside_(is_needed ? new_value_id() : 0), is_live_(is_needed), noted_(noted) {
  if (is_live_) ContextStack::push(*this);
}

void CaptureList::leave() noexcept {
  if (std::exchange(is_live_, false)) ContextStack::remove(*this);
}

void CaptureList::note(const Tensor& x) {
  if (!is_live_ || !moves(x) || is_resource(x)) return;
  uint64_t id = TensorAccess::id_or_zero(x);
  if (id == 0) {
    // No context knows it yet. It is an input of a graph, unless it is a constant of the function,
    // such as the 0.5 of x * 0.5, which has no other owner.
    if (noted_ == Noted::kDifferentiated) return;
    if (TraceContext::innermost() == nullptr || TensorAccess::is_unique(x)) return;
    id = TensorAccess::id(x);
  } else if (id >= first_inside_) {
    return;
  }
  if (seen_.insert(id).second) found_.push_back(x);
}

void CaptureList::leave_out(std::span<const Tensor> xs) {
  if (!is_live_) return;
  for (const Tensor& x : xs) {
    if (x.has_value()) seen_.insert(TensorAccess::id(x));
  }
}

Values CaptureList::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  if (noted_ == Noted::kAll || op.def().no_derivative.empty()) {
    for (std::size_t i = 0; i < in.size(); ++i) note(in[i]);
  }
  return parent_->execute(op, in, attrs, where);
}

}  // namespace etude::internal
