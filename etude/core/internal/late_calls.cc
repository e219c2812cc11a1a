// SPDX-License-Identifier: Apache-2.0
#include "etude/core/internal/late_calls.h"

#include <utility>

#include "etude/base/thread_object.h"
#include "etude/core/internal/mode.h"
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
  CallNote note{enqueuer->call, enqueuer->callers};
  if (note.call && (mode_word & kModeProfile) != 0) note.timer = timer_of_call();
  return note;
}

uint64_t Mailbox::note(CallNote call) {
  const std::lock_guard lock(mutex_);
  entries_.emplace_hint(entries_.end(), ++last_, Entry{std::move(call)});
  return last_;
}

void Mailbox::begin(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(number);
  if (at != entries_.end() && at->second.note.timer) {
    at->second.start = std::chrono::steady_clock::now();
  }
}

Mailbox::Entry Mailbox::take(uint64_t number) {
  Entry ended;  // its end may run destructors, which need no lock
  {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(number);
    if (at == entries_.end()) return ended;
    ended = std::move(at->second);
    entries_.erase(at);
  }
  if (ended.start != LateTimer::Time()) {
    ended.note.timer->ran(device_, ended.start, std::chrono::steady_clock::now());
  }
  return ended;
}

void Mailbox::finish(uint64_t number) noexcept { take(number); }

RefPtr<const LateFault> Mailbox::report(uint64_t number, const Error& fact) {
  return make_ref<LateFault>(take(number).note.placed(fact));
}

}  // namespace etude::internal
