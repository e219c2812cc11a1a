// SPDX-License-Identifier: Apache-2.0
// Error, the only exception class of Etude. A message names the op, the operand, the actual value,
// the requirement and the next step. The user's source line follows it. Throw with the macros of
// check.h.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class ErrorCode {
  kInvalidArgument,     // the caller can fix the value, shape or type
  kFailedPrecondition,  // the object is in the wrong state
  kNotFound,            // no such name, file or device
  kOutOfRange,          // an index or axis outside its range
  kUnimplemented,       // legal, but no rule or kernel yet
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
// `what()` returns "op: message\n  at file:line", followed by the staged functions around that
// line, if any.
class Error : public std::exception {
 public:
  [[gnu::cold]] Error(ErrorCode code, std::string message)
      : code_(code), message_(std::move(message)) {
    compose();
  }

  ErrorCode code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

  // Puts the name of the op in front. The first (innermost) name stays; later calls are ignored.
  void name_op(std::string_view op) {
    if (!op_.empty()) return;
    op_ = op;
    compose();
  }
  // Appends the user's line. The first known line stays.
  void locate(CallSite where) {
    if (where_.known() || !where.known()) return;
    where_ = where;
    compose();
  }
  // Adds the staged function in which the error happened, and its call site. Call it for the
  // innermost function first; the text lists the outermost first.
  [[gnu::cold]] void name_caller(std::string_view function, CallSite where) {
    std::string line = "\n  in function '" + std::string(function) + "'";
    if (where.known()) {
      line.append(" called at ").append(where.file).append(":").append(std::to_string(where.line));
    }
    callers_.insert(0, line);
    compose();
  }
  bool is_located() const noexcept { return where_.known(); }
  CallSite where() const noexcept { return where_; }
  // The op that failed, or "".
  std::string_view op() const noexcept { return op_; }
  // what() before the user's line: "op: message".
  [[gnu::cold]] std::string text() const {
    return where_.known() ? text_.substr(0, text_before_line_) : text_;
  }

 private:
  // Cold, like all code that builds texts: header-only programs compile it in every source file.
  [[gnu::cold, gnu::noinline]] void compose() {
    text_ = op_;
    if (!op_.empty()) text_.append(": ");
    text_.append(message_);
    text_before_line_ = text_.size();
    if (where_.known()) {
      text_.append("\n  at ").append(where_.file).append(":").append(std::to_string(where_.line));
    }
    text_.append(callers_);
  }

  ErrorCode code_;
  std::string message_;
  std::string op_;
  CallSite where_;
  std::string callers_;
  std::string text_;
  std::size_t text_before_line_ = 0;
};

}  // namespace etude
