// SPDX-License-Identifier: Apache-2.0
#include "etude/core/traced.h"

#include <memory>

#include <fmt/format.h>

namespace etude::internal {
namespace {

// Lies where a tensor has the owner of its elements. No tensor over it takes it for its own, since
// it is given back and not freed.
struct TraceMark : Buffer {
  RefPtr<const TraceInfo> trace;
  std::string_view op;  // of a record, which lives for ever
  CallSite where;
};

void give_back_mark(Buffer* mark) noexcept { delete static_cast<TraceMark*>(mark); }

const TraceMark* mark_of(const Tensor& x) noexcept {
  if (!x.has_value() || !TensorAccess::is_ghost(x)) return nullptr;
  const Buffer* buffer = TensorAccess::rep(x)->buffer;
  const bool is_mark = buffer != nullptr && buffer->give_back == give_back_mark;
  return is_mark ? static_cast<const TraceMark*>(buffer) : nullptr;
}

std::string line_text(CallSite where) {
  return where.known() ? fmt::format(" at {}:{}", where.file, where.line) : "";
}

}  // namespace

Tensor make_traced(const Type* type, const RefPtr<const TraceInfo>& trace, std::string_view op,
                   CallSite where) {
  auto mark = std::make_unique<TraceMark>();
  mark->count = 2;
  mark->give_back = give_back_mark;
  mark->trace = trace;
  mark->op = op;
  mark->where = where;
  Tensor out = make_ghost(type);
  TensorAccess::rep(out)->buffer = mark.release();
  return out;
}

const TraceInfo* trace_of(const Tensor& x) noexcept {
  const TraceMark* mark = mark_of(x);
  return mark == nullptr ? nullptr : mark->trace.get();
}

std::string explain_ghost(const Tensor& x) {
  const TraceMark* mark = mark_of(x);
  const std::string type = x.type()->to_string();
  if (mark == nullptr) {
    return fmt::format(
        "a value of type {} is only known by its type here: it stands for one example of a vmap, "
        "for a call that has not run, or for a value that a gradient rule did not ask to keep. "
        "Return it from the function and look at the result; where() chooses without looking",
        type);
  }
  const std::string made = mark->op.empty()
                               ? fmt::format("an input of function '{}'", mark->trace->function)
                               : fmt::format("the result of {}{} in function '{}'", mark->op,
                                             line_text(mark->where), mark->trace->function);
  if (mark->trace->is_over) {
    return fmt::format(
        "a value of type {} stands for {}, whose trace has ended: it has no elements outside of "
        "it. Return it from the function instead of keeping it",
        type, made);
  }
  return fmt::format(
      "a value of type {} stands for {}, which is being traced{}: it has no elements before the "
      "function runs. Choose with where(), without looking; or give the function the option "
      "run_eagerly",
      type, made, line_text(mark->trace->where));
}

}  // namespace etude::internal
