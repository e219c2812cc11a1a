// SPDX-License-Identifier: Apache-2.0
// The one exception class of Etude. A message names the op, the operand, what was seen, what was
// needed and the next step; the user's source line follows it. Throw with the macros of check.h.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class ErrorCode {
  kInvalidArgument,     // the caller can fix the value, shape or type
  kFailedPrecondition,  // the object is in the wrong state
  kNotFound,            // no such name, file or device
  kOutOfRange,          // an index or axis outside
  kUnimplemented,       // legal, but no rule or kernel yet
  kResourceExhausted,   // memory, or a configured limit
  kUnavailable,         // a peer is gone; may be retried
  kDataLoss,            // a file is torn or altered
  kInternal,            // a bug in Etude
};

// "invalid argument" for kInvalidArgument, and so on.
std::string_view to_string(ErrorCode code);

// What Etude throws. `what()` reads "op: message\n  at file:line".
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);

  ErrorCode code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

  // Names the op in front; the innermost op that is named keeps its place, outer ones are ignored.
  void name_op(std::string_view op);
  // Adds the user's line behind; the first known one stays.
  void locate(CallSite where);
  bool is_located() const noexcept { return where_.known(); }
  CallSite where() const noexcept { return where_; }
  // The op that failed, or "".
  std::string_view op() const noexcept { return op_; }

 private:
  void compose();

  ErrorCode code_;
  std::string message_;
  std::string op_;
  CallSite where_;
  std::string text_;
};

}  // namespace etude
