// SPDX-License-Identifier: Apache-2.0
// The user's call that the library works for. A function that a user calls runs its work in
// located(): errors from below get its name and the user's line, and calls that the library makes
// meanwhile are recorded and profiled at that line. So a layer shows the line where the model calls
// it, and what fit does by itself the line of fit.
//
// The rule: a line of the user's files stands for itself (CallSite::here gives it); a call from
// within the library has none, and takes that of the innermost CallScope.
#pragma once

#include <string_view>

#include "etude/base/call_site.h"
#include "etude/base/error.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern thread_local constinit CallSite user_call;

// The line to show for a call that was made at `where`.
inline CallSite user_line(CallSite where) noexcept { return where.known() ? where : user_call; }

// Adds to an error from below what was called, and the user's line.
[[gnu::cold]] void explain(Error& error, std::string_view name, CallSite where);
[[noreturn, gnu::cold]] void throw_no_memory(std::string_view name, CallSite where);

}  // namespace internal

// While alive, calls of this thread without a line of their own are shown at `where`; an unknown
// one changes nothing. confined to the thread that made it. cost: four moves, no call.
class CallScope {
 public:
  explicit CallScope(CallSite where) noexcept : saved_(internal::user_call) {
    if (where.known()) internal::user_call = where;
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() { internal::user_call = saved_; }

 private:
  CallSite saved_;
};

namespace internal {

// Runs `f` as the work of the function `name` (of nothing, if empty) that was called at `where`.
template <class F>
decltype(auto) located(std::string_view name, CallSite where, F&& f) {
  const CallScope scope(where);
  try {
    return f();
  } catch (Error& error) {
    explain(error, name, where);
    throw;
  }
}

}  // namespace internal
}  // namespace etude
