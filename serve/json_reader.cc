// SPDX-License-Identifier: Apache-2.0
#include "serve/json_reader.h"

#include <algorithm>
#include <array>

#include "serve/refuse.h"

namespace etude::serve {
namespace {

// The bytes of ASCII that a text of JSON holds without an escape.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> out = {};
  for (unsigned c = 0x20; c < 0x80; ++c) out[c] = c != '"' && c != '\\';
  return out;
}();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Appends a code point below 0x110000, which is no half of a pair.
void append_utf8(std::string& to, unsigned code) {
  if (code < 0x80) {
    to += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
  to += static_cast<char>(kLead[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) to += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

// Where the decoded bytes of a text go: to a string, or nowhere.
struct ToString {
  std::string& out;
  void bytes(std::string_view plain) { out += plain; }
  void code(unsigned code) { append_utf8(out, code); }
};
struct Nowhere {
  void bytes(std::string_view) {}
  void code(unsigned) {}
};

}  // namespace

void JsonReader::fail(std::string_view expected) const {
  if (at_ >= text_.size()) {
    refuse(ErrorCode::kInvalidArgument, "the request is no JSON: it ends at byte {}, before {}",
           text_.size(), expected);
  }
  const auto c = static_cast<unsigned char>(text_[at_]);
  const std::string seen = c >= 0x20 && c < 0x7F ? fmt::format("'{}'", static_cast<char>(c))
                                                 : fmt::format("0x{:02x}", c);
  refuse(ErrorCode::kInvalidArgument, "the request is no JSON: byte {} is {}, in the place of {}",
         at_, seen, expected);
}

JsonReader::Kind JsonReader::kind() {
  skip_space();
  switch (next()) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kList;
    case '"':
      return Kind::kText;
    case 't':
    case 'f':
      return Kind::kFlag;
    case 'n':
      return Kind::kNull;
    default:
      if (next() != '-' && !is_digit(next())) fail("a value");
      return Kind::kNumber;
  }
}

void JsonReader::open(char bracket) {
  skip_space();
  if (next() != bracket) fail(bracket == '[' ? "a list" : "an object");
  if (++level_ > most_levels_) {
    refuse(ErrorCode::kResourceExhausted,
           "the JSON of the request is nested deeper than {}, at byte {}", most_levels_, at_);
  }
  ++at_;
}

bool JsonReader::closes(char bracket) {
  skip_space();
  if (next() != bracket) return false;
  ++at_;
  --level_;
  return true;
}

bool JsonReader::continues(char bracket) {
  if (closes(bracket)) return false;
  if (next() != ',') fail(bracket == ']' ? "',' or ']'" : "',' or '}'");
  ++at_;
  return true;
}

std::string JsonReader::key_and_colon() {
  skip_space();
  if (next() != '"') fail("a key");
  std::string out = text();
  skip_space();
  if (next() != ':') fail("':'");
  ++at_;
  return out;
}

void JsonReader::word(std::string_view expected) {
  if (text_.substr(at_, expected.size()) != expected) fail(expected);
  at_ += expected.size();
}

bool JsonReader::flag() {
  skip_space();
  const bool out = next() == 't';
  word(out ? "true" : "false");
  return out;
}

void JsonReader::digits() {
  if (!is_digit(next())) fail("a digit");
  while (is_digit(next())) ++at_;
}

std::string_view JsonReader::number() {
  const std::size_t begin = offset();
  if (next() == '-') ++at_;
  if (next() == '0') {
    ++at_;
  } else {
    digits();
  }
  if (next() == '.') {
    ++at_;
    digits();
  }
  if (next() == 'e' || next() == 'E') {
    ++at_;
    if (next() == '+' || next() == '-') ++at_;
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

// The length of the character at this place; 0 if it is not UTF-8.
std::size_t JsonReader::utf8_bytes() const {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0;
  };
  const unsigned lead = byte(0);
  const std::size_t size = lead >= 0xC2 && lead < 0xE0   ? 2
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xF0 && lead < 0xF5 ? 4
                                                         : 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Longer forms of short characters, halves of pairs, and numbers beyond the last character.
  const bool is_wrong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0) ||
                        (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90);
  return is_wrong ? 0 : size;
}

unsigned JsonReader::four_hex_digits() {
  unsigned out = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = next();
    const bool is_low = c >= 'a' && c <= 'f', is_high = c >= 'A' && c <= 'F';
    if (!is_digit(c) && !is_low && !is_high) fail("a hexadecimal digit");
    out = out << 4 | static_cast<unsigned>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return out;
}

// After a backslash.
template <class Sink>
void JsonReader::escape(Sink&& sink) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  const char c = next();
  const std::size_t found = kLetters.find(c);
  if (found != std::string_view::npos) {
    ++at_;
    sink.bytes(kMeant.substr(found, 1));
    return;
  }
  if (c != 'u') fail("a letter of an escape");
  ++at_;
  unsigned code = four_hex_digits();
  if (code >= 0xDC00 && code < 0xE000) fail("a pair of escapes");
  if (code >= 0xD800 && code < 0xDC00) {
    word("\\u");
    const unsigned low = four_hex_digits();
    if (low < 0xDC00 || low >= 0xE000) fail("a pair of escapes");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  sink.code(code);
}

template <class Sink>
void JsonReader::read_text(Sink&& sink) {
  skip_space();
  if (next() != '"') fail("a text");
  ++at_;
  for (;;) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && kPlain[static_cast<unsigned char>(text_[at_])]) ++at_;
    sink.bytes(text_.substr(begin, at_ - begin));
    if (at_ == text_.size()) fail("the end of a text");
    if (next() == '"') {
      ++at_;
      return;
    }
    if (next() == '\\') {
      ++at_;
      escape(sink);
      continue;
    }
    const std::size_t size = utf8_bytes();
    if (size == 0) fail("a character of UTF-8");
    sink.bytes(text_.substr(at_, size));
    at_ += size;
  }
}

std::string JsonReader::text() {
  std::string out;
  read_text(ToString{out});
  return out;
}

void JsonReader::skip() {
  switch (kind()) {
    case Kind::kNull:
      return word("null");
    case Kind::kFlag:
      flag();
      return;
    case Kind::kNumber:
      number();
      return;
    case Kind::kText:
      return read_text(Nowhere{});
    case Kind::kList:
      return list([this] { skip(); });
    case Kind::kObject:
      return object([this](const std::string&) { skip(); });
  }
}

std::string JsonReader::shown() {
  const Kind found = kind();
  const std::size_t begin = at_;
  skip();
  if (found == Kind::kList) return "a list";
  if (found == Kind::kObject) return "an object";
  return std::string(text_.substr(begin, std::min<std::size_t>(at_ - begin, 60)));
}

void JsonReader::finish() {
  skip_space();
  if (at_ != text_.size()) fail("the end");
}

}  // namespace etude::serve
