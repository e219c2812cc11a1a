// SPDX-License-Identifier: Apache-2.0
#include "etude/core/call/together.h"

#include <optional>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/context/context.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/mode.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/eager/cancel.h"
#include "etude/eager/dispatch.h"
#include "etude/eager/profiler.h"

namespace etude::internal {
namespace {

// Whether a result may be written over operand i.
bool may_take(Operands in, std::size_t i) noexcept {
  if (!in.has(i) || ((in.expiring() >> i) & 1) == 0) return false;
  if (TensorAccess::is_unique(in[i])) return true;
  if (pending_mark(in[i]) == nullptr) return false;
  settle(const_cast<Tensor&>(in[i]));  // the operand expires
  return TensorAccess::is_unique(in[i]);
}

// The operand over which result r is written; null: none.
const Tensor* operand_below(const Prepared& p, std::size_t r, Operands in) noexcept {
  if (r < p.results_over.size()) {
    const int over = p.results_over[r];
    return over >= 0 && may_take(in, static_cast<std::size_t>(over))
               ? &in[static_cast<std::size_t>(over)]
               : nullptr;
  }
  for (std::size_t i = 0; i < in.size() && (p.in_place >> i) != 0; ++i) {
    if (((p.in_place >> i) & 1) != 0 && may_take(in, i)) return &in[i];
  }
  return nullptr;
}

// The prepared form of a call whose operands have elements; null if it has to run now.
RefPtr<const Prepared> prepared_form(const Op& op, Operands in, const Attrs& attrs,
                                     const InlineVector<const Type*, 6>& types) {
  const uint32_t id = attrs.dispatch_id();
  if (DispatchEntry::can_hold(types.size(), id)) {
    const DispatchEntry& known = latest_entry(op, id, types.data(), types.size());
    if (known.holds(op, id, types.data(), types.size())) return known.prepared;
  }
  if (op.def().data != nullptr || op.is_composed(device_of(op, in, attrs))) return {};
  if (op.device_attr() >= 0 || !fits_as_given(op, in, attrs, {})) return {};
  DispatchEntry scratch;
  return dispatch(op, attrs, types.data(), types.size(), scratch).prepared;
}

}  // namespace

bool CallsTogether::prepare_to_wait(const Op& op, Operands in, const Attrs& attrs, Call& call) {
  if (!ContextStack::is_eager()) return false;
  if ((mode_word & kModeDevice) != 0 && !is_placed(op, in)) return false;
  InlineVector<const Type*, 6> types;
  const std::size_t count = full_count(op, in.size());
  for (std::size_t i = 0; i < count; ++i) {
    const TensorRep* rep = i < in.size() ? TensorAccess::rep(in[i]) : nullptr;
    if (rep != nullptr && rep->data == nullptr) return false;  // pending, or slices
    types.push_back(rep != nullptr ? rep->type : nullptr);
    call.in.push_back(rep != nullptr ? static_cast<const void*>(rep->data) : nullptr);
    call.bytes += rep != nullptr ? rep->type->bytes() : 0;
  }
  const RefPtr<const Prepared> form = prepared_form(op, in, attrs, types);
  if (!form || form->run == nullptr || form->view_of >= 0) return false;
  if (is_queued(*form) || !form->never_faults) return false;
  if ((mode_word & kModeCancel) != 0) {
    ETUDE_REQUIRE_CODE(kCancelled, !is_cancelled(), "{}", kCancelledText);
  }
  for (std::size_t r = 0; r < form->results.size(); ++r) {
    Result& result = call.results.emplace_back();
    result.over = operand_below(*form, r, in);
    if (result.over == nullptr) result.made = make_tensor(form->results[r]);
    const Tensor& y = result.over != nullptr ? *result.over : result.made;
    call.out.push_back(TensorAccess::rep(y)->data);
    call.bytes += form->results[r]->bytes();
  }
  call.waits = form;
  return true;
}

std::size_t CallsTogether::add(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  return located(op, where, [&] {
    // Made here and moved to its place: operands may be results in `calls_`, which may move.
    Call call{.op = &op, .where = user_line(where)};
    if (!prepare_to_wait(op, in, attrs, call)) {
      for (Tensor& y : execute(op, in.without_expiring(), attrs, where)) {
        call.results.emplace_back().made = std::move(y);
      }
    }
    calls_.push_back(std::move(call));
    return calls_.size() - 1;
  });
}

const Tensor& CallsTogether::result(std::size_t call, std::size_t r) const noexcept {
  const Result& result = calls_[call].results[r];
  return result.over != nullptr ? *result.over : result.made;
}

void CallsTogether::run() {
  for (Call& call : calls_) {
    const RefPtr<const Prepared> kernel = std::move(call.waits);
    if (!kernel) continue;
    std::optional<ProfiledCall> profiled;
    if ((mode_word & kModeProfile) != 0) profiled.emplace(*call.op, call.bytes, call.where);
    const FloatModeScope float_mode;
    if (!kernel->run({kernel->state, call.out.data(), call.in.data()})) throw_fault();
  }
}

Tensor CallsTogether::take(std::size_t call, std::size_t r) noexcept {
  Result& result = calls_[call].results[r];
  if (result.over == nullptr) return std::move(result.made);
  Tensor out = std::move(const_cast<Tensor&>(*result.over));  // the operand expires
  TensorAccess::forget_id(out);
  count_copy_avoided();
  if (!out.type()->device().is_home()) note_line(out, calls_[call].where);
  return out;
}

}  // namespace etude::internal
