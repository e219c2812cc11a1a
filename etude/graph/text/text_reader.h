// SPDX-License-Identifier: Apache-2.0
// A position in a text, for parse.cc. It reads words, names and types, and throws errors that show
// the line. It reads each byte once and never moves backwards.
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
  // Reads text[begin, end). Lines in errors are counted in the whole `text`, which is borrowed.
  TextReader(std::string_view text, std::size_t begin, std::size_t end)
      : text_(text), at_(begin), end_(end) {}

  std::size_t at() const { return at_; }
  bool is_at_end() const { return at_ == end_; }
  const char* data() const { return text_.data() + at_; }
  const char* end() const { return text_.data() + end_; }
  // Continues at `at`, a position between data() and end() that another parser returned.
  void set(const char* at) { at_ = static_cast<std::size_t>(at - text_.data()); }

  // The next byte, or 0 at the end.
  char peek() const { return at_ == end_ ? '\0' : text_[at_]; }
  void skip_blanks();
  // Skips blanks, line ends, and comment lines.
  void skip_lines();
  // The letters, digits, '_' and '.' at the current position; "" if there are none.
  std::string_view word();
  // The following functions skip blanks first.
  bool take(std::string_view symbol);
  void need(std::string_view symbol, std::string_view after);
  bool is_line_end();
  // A bare or quoted name, decoded. `what`: the noun for an error about a missing name.
  std::string name(std::string_view what);
  // The n of "~n" that may follow a name without a blank; 1 if there is none.
  uint64_t ordinal();
  // "float32[2,3]", "float32[2,3]@gpu:0". Sizes are known.
  const Type* type();
  // The rest of the line without blanks at its ends. Moves to the end of the line.
  std::string_view rest_of_line();

  // The text at the current position, for messages: a word in quotes, or "the end of the line".
  std::string seen() const;
  // throws: an Error with the line and column of `at`, and the text of the line.
  [[noreturn]] void fail(std::size_t at, std::string fact,
                         ErrorCode code = ErrorCode::kInvalidArgument) const;
  [[noreturn]] void fail(std::string fact) const { fail(at_, std::move(fact)); }

 private:
  const Type* type_of(std::string_view text, std::size_t begin) const;

  std::string_view text_;
  std::size_t at_, end_;
};

}  // namespace etude::internal
