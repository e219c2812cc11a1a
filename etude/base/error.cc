// SPDX-License-Identifier: Apache-2.0
#include "etude/base/error.h"

#include <utility>

#include "etude/base/check.h"

namespace etude {

std::string_view to_string(ErrorCode code) {
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
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {
  compose();
}

void Error::name_op(std::string_view op) {
  if (!op_.empty()) return;
  op_ = op;
  compose();
}

void Error::locate(CallSite where) {
  if (where_.known() || !where.known()) return;
  where_ = where;
  compose();
}

void Error::compose() {
  text_ = op_.empty() ? message_ : op_ + ": " + message_;
  if (where_.known()) text_ += fmt::format("\n  at {}:{}", where_.file, where_.line);
}

namespace internal {
void throw_error(ErrorCode code, std::string message) { throw Error(code, std::move(message)); }

void throw_check(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(
      ErrorCode::kInternal,
      fmt::format("{} [{} does not hold at {}:{}]. This is a bug in Etude: please report it",
                  message, condition, file, line));
}
}  // namespace internal
}  // namespace etude
