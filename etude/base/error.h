// SPDX-License-Identifier: Apache-2.0
// Error, the only exception class of Etude. A message names the op, the operand, the actual value,
// the requirement and the next step. The user's source line follows the message. Throw with the
// macros of check.h.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class ErrorCode {
  kInvalidArgument,     // the caller can fix the value, shape or type
  kFailedPrecondition,  // the object is in the wrong state
  kNotFound,            // no such name, file or device
  kOutOfRange,          // an index or axis outside its range
  kUnimplemented,       // a legal call, but no rule or kernel yet
  kResourceExhausted,   // memory, or a configured limit
  kUnavailable,         // a peer is gone; may be retried
  kDataLoss,            // a file is torn or altered
  kCancelled,           // cancelled on request
  kInternal,            // a bug in Etude
};

// "invalid argument" for kInvalidArgument, and so on.
constexpr std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kFailedPrecondition:
      return "failed precondition";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kOutOfRange:
      return "out of range";
    case ErrorCode::kUnimplemented:
      return "unimplemented";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDataLoss:
      return "data loss";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

// Whether a later retry of the same call may succeed: the request itself is valid.
constexpr bool may_pass(ErrorCode code) {
  return code == ErrorCode::kResourceExhausted || code == ErrorCode::kUnavailable ||
         code == ErrorCode::kCancelled;
}

// The exception that Etude throws. Header-only, since some headers work without the library.
// `what()` returns "op: message\n  at file:line", followed by the staged functions that enclose the
// line. Copies share the text, so copying never throws.
class Error : public std::exception {
 public:
  [[gnu::cold]] Error(ErrorCode code, std::string message)
      : code_(code), content_(internal::make_ref<Content>()) {
    content_->message = std::move(message);
    content_->compose();
  }
  // There is no move constructor, so an Error keeps its text after std::move.
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;

  ErrorCode code() const noexcept { return code_; }
  const char* what() const noexcept override { return content_->text.c_str(); }

  // Prefixes the message with the name of the op. The first (innermost) name stays. Later calls are
  // ignored.
  void name_op(std::string_view op) {
    if (!content_->op.empty()) return;
    own().op = op;
    content_->compose();
  }
  // Appends the user's line. The first known line stays.
  void locate(CallSite where) {
    if (content_->where.known() || !where.known()) return;
    own().where = where;
    content_->compose();
  }
  // Adds the staged function in which the error happened, and its call site. Call name_caller() for
  // the innermost function first. The text lists the outermost function first.
  [[gnu::cold]] void name_caller(std::string_view function, CallSite where) {
    std::string line = "\n  in function '" + std::string(function) + "'";
    if (where.known()) {
      line.append(" called at ").append(where.file).append(":").append(std::to_string(where.line));
    }
    own().callers.insert(0, line);
    content_->compose();
  }
  // Stores the user's exception that this error reports. The first cause stays.
  void set_cause(std::exception_ptr cause) {
    if (content_->cause == nullptr) own().cause = std::move(cause);
  }
  // The user's exception that this error reports, such as an exception from the callable of a
  // host_function; null if there is none. std::rethrow_exception(error.cause()) throws this
  // exception again.
  std::exception_ptr cause() const noexcept { return content_->cause; }
  bool is_located() const noexcept { return content_->where.known(); }
  CallSite where() const noexcept { return content_->where; }
  // The op that failed, or "".
  std::string_view op() const noexcept { return content_->op; }
  // Returns the part of what() before the user's line: "op: message".
  [[gnu::cold]] std::string text() const {
    return is_located() ? content_->text.substr(0, content_->text_before_line) : content_->text;
  }

 private:
  struct Content : internal::RefCounted {
    std::string message;
    std::string op;
    CallSite where;
    std::string callers;
    std::exception_ptr cause;
    std::string text;
    std::size_t text_before_line = 0;

    // Header-only programs compile this function in every source file. It is cold, so that the
    // compiler optimises it for size.
    [[gnu::cold, gnu::noinline]] void compose() {
      text = op;
      if (!op.empty()) text.append(": ");
      text.append(message);
      text_before_line = text.size();
      if (where.known()) {
        text.append("\n  at ").append(where.file).append(":").append(std::to_string(where.line));
      }
      text.append(callers);
    }
  };
  // Returns the content for writing. Copies the content first if other copies of the error share
  // it.
  [[gnu::cold, gnu::noinline]] Content& own() {
    if (content_->unique()) return *content_;
    const internal::RefPtr<Content> shared = content_;
    content_ = internal::make_ref<Content>();
    content_->message = shared->message;
    content_->op = shared->op;
    content_->where = shared->where;
    content_->callers = shared->callers;
    content_->cause = shared->cause;
    return *content_;
  }

  ErrorCode code_;
  internal::RefPtr<Content> content_;
};
static_assert(std::is_nothrow_copy_constructible_v<Error>);

}  // namespace etude
