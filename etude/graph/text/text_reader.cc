// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/text_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "etude/core/internal/device_table.h"
#include "etude/core/op/exact_text.h"
#include "etude/graph/text/names.h"

namespace etude::internal {
namespace {

// The maximum text of a line shown on each side of an error.
constexpr std::size_t kShown = 60;
constexpr std::size_t kMaxFact = 1000;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// Includes the bytes of non-ASCII letters, which must not be split.
bool is_seen(char c) { return is_word(c) || static_cast<unsigned char>(c) >= 0x80; }

std::optional<Device> device_named(std::string_view text) {
  try {
    return device_called(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void TextReader::skip_blanks() {
  while (at_ != end_ && is_blank(text_[at_])) ++at_;
}

void TextReader::skip_lines() {
  for (skip_blanks(); peek() == '\n' || peek() == '#'; skip_blanks()) {
    at_ = peek() == '\n' ? at_ + 1 : std::min(text_.find('\n', at_), end_);
  }
}

bool TextReader::take(std::string_view symbol) {
  skip_blanks();
  if (!text_.substr(at_, end_ - at_).starts_with(symbol)) return false;
  at_ += symbol.size();
  return true;
}

void TextReader::need(std::string_view symbol, std::string_view after) {
  if (!take(symbol)) {
    fail(fmt::format("'{}' must follow {}, but here is {}", symbol, after, seen()));
  }
}

bool TextReader::is_line_end() {
  skip_blanks();
  return at_ == end_ || peek() == '\n';
}

std::string_view TextReader::word() {
  const std::size_t begin = at_;
  while (at_ != end_ && is_word(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string TextReader::name(std::string_view what) {
  skip_blanks();
  const std::size_t length = bare_name_length(text_.substr(at_, end_ - at_));
  if (length > 0) {
    at_ += length;
    return std::string(text_.substr(at_ - length, length));
  }
  std::string out;
  const char* behind = data();
  if (!read_quoted(behind, end(), out)) {
    if (peek() == '"') fail("this text in quotes has no end in its line, or an unknown escape");
    fail(fmt::format("the name of {} is expected, but here is {}", what, seen()));
  }
  set(behind);
  return out;
}

uint64_t TextReader::ordinal() {
  if (peek() != '~') return 1;
  uint64_t n = 0;
  const auto [behind, fault] = std::from_chars(data() + 1, end(), n);
  if (fault != std::errc() || n < 2) fail("a number from 2 on must follow '~'");
  set(behind);
  return n;
}

const Type* TextReader::type_of(std::string_view text, std::size_t begin) const {
  if (text[0] == '[') fail(begin, "a type begins with its dtype: float32[2,3]");
  const std::size_t mark = std::min(text.find('@'), text.size());
  const Type* type = nullptr;
  try {
    type = parse_type(text.substr(0, mark));
  } catch (const Error& error) {
    fail(begin, error.what());
  }
  if (type->count() == kAny) fail(begin, "the sizes of the types of a graph are known");
  if (mark == text.size()) return type;
  const std::optional<Device> device = device_named(text.substr(mark + 1));
  if (!device) fail(begin + mark, "a device is written like @cpu:0 or @gpu:1");
  return intern_type(type->dtype(), type->shape(), *device);
}

const Type* TextReader::type() {
  skip_blanks();
  const std::size_t begin = at_;
  const auto skip = [&](auto&& is_part) {
    while (at_ != end_ && is_part(text_[at_])) ++at_;
  };
  skip(is_word);
  if (peek() == '[') {
    skip([](char c) { return c != ']' && c != '\n' && c != ')' && c != ' '; });
    if (peek() == ']') ++at_;
  }
  if (at_ == begin) fail(fmt::format("a type is expected, but here is {}", seen()));
  if (peek() == '@') skip([](char c) { return c == '@' || c == ':' || is_word(c); });
  return type_of(text_.substr(begin, at_ - begin), begin);
}

std::string_view TextReader::rest_of_line() {
  skip_blanks();
  const std::size_t line_end = std::min(text_.find('\n', at_), end_);
  std::string_view rest = text_.substr(at_, line_end - at_);
  while (!rest.empty() && is_blank(rest.back())) rest.remove_suffix(1);
  at_ = line_end;
  return rest;
}

std::string TextReader::seen() const {
  if (at_ == end_) return at_ == text_.size() ? "the end of the text" : "the end of the graph";
  if (peek() == '\n') return "the end of the line";
  std::size_t length = 0;
  while (at_ + length < end_ && length < kShown && is_seen(text_[at_ + length])) ++length;
  return quoted_text(text_.substr(at_, std::max<std::size_t>(length, 1)));
}

void TextReader::fail(std::size_t at, std::string fact, ErrorCode code) const {
  if (fact.size() > kMaxFact) {  // a text that is quoted may have any length
    fact.replace(kMaxFact / 2, fact.size() - kMaxFact, " ... ");
  }
  const std::string_view before = text_.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::size_t end = std::min(text_.find('\n', at), text_.size());
  const std::size_t first = at - begin > kShown ? at - kShown : begin;
  std::string shown(text_.substr(first, std::min(end, at + kShown) - first));
  // A control byte must not affect the terminal that shows it.
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::ranges::replace_if(shown, is_control, ' ');
  std::ranges::replace_if(fact, is_control, ' ');
  throw Error(code, fmt::format("line {}, column {}: {}\n    {}\n    {:>{}}", line, at - begin + 1,
                                fact, shown, "^", at - first + 1));
}

}  // namespace etude::internal
