// SPDX-License-Identifier: Apache-2.0
#include "etude/core/internal/traced.h"

#include <thread>

#include <fmt/format.h>

#include "etude/core/context/abstract_mark.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/device_table.h"

namespace etude::internal {
namespace {

struct Made {
  RefPtr<const TraceInfo> trace;
  std::string_view op;  // of a record, which is never destroyed
  CallSite where;
  std::thread::id thread = std::this_thread::get_id();  // that traces
  mutable bool has_fixed_place = false;
};

std::string line_text(CallSite where) {
  return where.known() ? fmt::format(" at {}:{}", where.file, where.line) : "";
}

}  // namespace

Tensor make_traced(const Type* type, const RefPtr<const TraceInfo>& trace, std::string_view op,
                   CallSite where) {
  return make_marked_abstract(type, Made{trace, op, where});
}

const TraceInfo* trace_of(const Tensor& x) noexcept {
  const Made* made = find_mark<Made>(x);
  return made == nullptr ? nullptr : made->trace.get();
}

void fix_place(const Tensor& x) noexcept {
  if (const Made* made = find_mark<Made>(x)) made->has_fixed_place = true;
}

bool has_fixed_place(const Tensor& x) noexcept {
  const Made* made = find_mark<Made>(x);
  return made != nullptr && made->has_fixed_place;
}

CallSite made_at(const Tensor& x) noexcept {
  if (const Made* made = find_mark<Made>(x)) return made->where;
  const Buffer* const buffer = TensorAccess::rep(x)->buffer;
  const bool is_away = buffer != nullptr && buffer->memory != nullptr;
  return is_away ? static_cast<const DeviceBuffer*>(buffer)->made_at : CallSite{};
}

std::string explain_abstract(const Tensor& x) {
  const Made* mark = find_mark<Made>(x);
  const std::string type = x.type()->to_string();
  if (mark == nullptr) {
    return fmt::format(
        "a value of type {} is only known by its type here: it stands for one example of a vmap, "
        "for a call that has not run, or for a value that a gradient rule did not ask to keep. "
        "Return it from the function and look at the result; cond(), while_loop() and where() "
        "choose without looking",
        type);
  }
  const std::string made = mark->op.empty()
                               ? fmt::format("an input of function '{}'", mark->trace->function)
                               : fmt::format("the result of {}{} in function '{}'", mark->op,
                                             line_text(mark->where), mark->trace->function);
  if (mark->trace->is_over) {
    return fmt::format(
        "a value of type {} stands for {}, whose trace has ended: it has no elements outside of "
        "it. Return it from the function instead of keeping it. From the body of a loop, scan() "
        "gives a row for each step",
        type, made);
  }
  if (mark->thread != std::this_thread::get_id()) {
    return fmt::format(
        "a value of type {} stands for {}, which another thread is tracing{}: calls of this thread "
        "are not part of that graph. Start threads outside of staged functions, and call these in "
        "each, or give the function the option run_eagerly",
        type, made, line_text(mark->trace->where));
  }
  return fmt::format(
      "a value of type {} stands for {}, which is being traced{}: it has no elements before the "
      "function runs. Instead of an `if` write cond(x, [&] {{ ... }}, [&] {{ ... }}), instead of a "
      "`while` write while_loop(); where() chooses without looking, and code in a host_function() "
      "sees "
      "elements. Or give the function the option run_eagerly",
      type, made, line_text(mark->trace->where));
}

}  // namespace etude::internal
