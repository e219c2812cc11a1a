// SPDX-License-Identifier: Apache-2.0
// The user's call on whose behalf the library runs. A public function does its work in located():
// errors get its name and the user's line, and the library's own calls are recorded and profiled at
// that line. So a layer shows the line where the model calls it, and the work of fit shows the line
// of fit.
//
// A call from a line of the user's files has its own line (CallSite::here() returns it). A call
// from within the library has none and takes the line of the innermost CallScope.
#pragma once

#include <string>
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

// The line to show for a call made at `where`.
inline CallSite user_line(CallSite where) noexcept { return where.known() ? where : user_call; }

// Adds the name of the called function and the user's line to `error`.
[[gnu::cold]] void explain(Error& error, std::string_view name, CallSite where);
// throws: an error of the function `name`, at the user's line.
[[noreturn, gnu::cold]] void throw_of(std::string_view name, ErrorCode code,
                                      const std::string& text, CallSite where);
[[noreturn, gnu::cold]] void throw_no_memory(std::string_view name, CallSite where);

}  // namespace internal

// While alive, calls of this thread without a line of their own have the line `where`. An unknown
// `where` changes nothing.
// threads: confined to the thread that made it. cost: four moves, no call.
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

// Runs `f` as the work of the function `name` that was called at `where`. Errors get the name,
// unless it is empty, and the line.
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
