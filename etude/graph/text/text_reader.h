// SPDX-License-Identifier: Apache-2.0
// A place in a text that is being read, for parse.cc: words, names and types from there on, and
// errors that show the line. It never goes back and reads each byte once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "etude/base/error.h"
#include "etude/core/type.h"

namespace etude::internal {

class TextReader {
 public:
  // Reads text[begin, end); lines of errors are counted in all of `text`, which is only borrowed.
  TextReader(std::string_view text, std::size_t begin, std::size_t end)
      : text_(text), at_(begin), end_(end) {}

  std::size_t at() const { return at_; }
  bool is_at_end() const { return at_ == end_; }
  const char* data() const { return text_.data() + at_; }
  const char* end() const { return text_.data() + end_; }
  // Goes on at a place that a function got which reads from data() to end().
  void set(const char* at) { at_ = static_cast<std::size_t>(at - text_.data()); }

  // The next byte, or 0 at the end.
  char peek() const { return at_ == end_ ? '\0' : text_[at_]; }
  void skip_blanks();
  // Blanks, the ends of lines, and lines that are a comment.
  void skip_lines();
  // The letters, digits, '_' and '.' that stand right here; "" if there are none.
  std::string_view word();
  // These skip blanks first.
  bool take(std::string_view symbol);
  void need(std::string_view symbol, std::string_view after);
  bool is_line_end();
  // A bare name or one in quotes, decoded. `what` says for an error whose name is missing.
  std::string name(std::string_view what);
  // The n of "~n" that may follow a name without a blank; 1 without it.
  uint64_t ordinal();
  // "float32[2,3]", "float32[2,3]@cuda:0". Sizes are known.
  const Type* type();
  // What is left of the line, without blanks at its ends. Goes to the end of the line.
  std::string_view rest_of_line();

  // What stands here, for messages: a word in quotes, or "the end of the line".
  std::string seen() const;
  // throws: an Error that names the line and column of `at`, and shows the line.
  [[noreturn]] void fail(std::size_t at, std::string fact,
                         ErrorCode code = ErrorCode::kInvalidArgument) const;
  [[noreturn]] void fail(std::string fact) const { fail(at_, std::move(fact)); }

 private:
  const Type* type_of(std::string_view text, std::size_t begin) const;

  std::string_view text_;
  std::size_t at_, end_;
};

}  // namespace etude::internal
