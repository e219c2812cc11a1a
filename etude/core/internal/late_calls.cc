// SPDX-License-Identifier: Apache-2.0
#include "etude/core/internal/late_calls.h"

#include <utility>

#include "etude/base/thread_object.h"
#include "etude/core/op/op.h"

namespace etude::internal {
namespace {

// The innermost scopes of a thread.
struct Enqueuer {
  RefPtr<const LateCall> call;
  RefPtr<const LateCaller> callers;
};

void name_callers(Error& error, const LateCaller* caller) {
  for (; caller != nullptr; caller = caller->outer.get()) {
    error.name_caller(caller->function, caller->where);
  }
}

}  // namespace

LateCall::LateCall(const Op& of, const Attrs& attrs, CallSite at) : where(at) {
  const std::string_view attr = of.def().works_for;
  op = attr.empty() ? std::string(of.name()) : std::string(attrs.text(attr));
}

Error CallNote::placed(const Error& fact) const {
  Error error = fact;
  if (call) {
    error.name_op(call->op);
    error.locate(call->where);
    name_callers(error, call->callers.get());
  }
  name_callers(error, callers.get());
  return error;
}

LateCallScope::LateCallScope(RefPtr<const LateCall> call)
    : outer_(std::exchange(ThreadObject<Enqueuer>::get().call, std::move(call))) {}

LateCallScope::~LateCallScope() { ThreadObject<Enqueuer>::get().call = std::move(outer_); }

LateCallerScope::LateCallerScope(const std::string& function, CallSite where) {
  Enqueuer& enqueuer = ThreadObject<Enqueuer>::get();
  auto caller = make_ref<LateCaller>();
  caller->function = function;
  caller->where = where;
  caller->outer = std::move(enqueuer.callers);
  enqueuer.callers = caller;
}

LateCallerScope::~LateCallerScope() {
  Enqueuer& enqueuer = ThreadObject<Enqueuer>::get();
  const RefPtr<const LateCaller> ended = std::move(enqueuer.callers);
  enqueuer.callers = ended->outer;
}

CallNote note_of_call() {
  const Enqueuer* const enqueuer = ThreadObject<Enqueuer>::find();
  if (enqueuer == nullptr) return {};
  return {enqueuer->call, enqueuer->callers};
}

uint64_t Mailbox::note(CallNote call) {
  const std::lock_guard lock(mutex_);
  notes_.emplace_hint(notes_.end(), ++last_, std::move(call));
  return last_;
}

void Mailbox::finish(uint64_t number) noexcept {
  CallNote ended;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto at = notes_.find(number);
  if (at == notes_.end()) return;
  ended = std::move(at->second);
  notes_.erase(at);
}

RefPtr<const LateFault> Mailbox::report(uint64_t number, const Error& fact) {
  CallNote note;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = notes_.find(number); at != notes_.end()) {
      note = std::move(at->second);
      notes_.erase(at);
    }
  }
  return make_ref<LateFault>(note.placed(fact));
}

}  // namespace etude::internal
