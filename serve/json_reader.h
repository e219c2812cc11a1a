// SPDX-License-Identifier: Apache-2.0
// Reads JSON texts from front to back, without a tree of values: it allocates memory only for texts
// that callers want. Used for requests, which are not trusted.
//
// The library reads its files by files/canonical_json.h, which is another reader for a reason: it
// makes a tree, and takes only the form that the library writes: without spaces, with sorted keys,
// and with one form of each number. Here all of RFC 8259 is legal, and numbers go to the memory of
// a tensor. The two would share only the loop over plain characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace etude::serve {

// All functions throw kInvalidArgument, with the offset, if the text is not JSON (RFC 8259), and
// kResourceExhausted for brackets nested too deep. The view must outlive the reader.
class JsonReader {
 public:
  enum class Kind : uint8_t { kNull, kFlag, kNumber, kText, kList, kObject };

  JsonReader(std::string_view text, int most_levels) : text_(text), most_levels_(most_levels) {}

  // The kind of the next value, and its offset.
  Kind kind();
  std::size_t offset() {
    skip_space();
    return at_;
  }
  // Continues at a value at an offset() of before.
  void go_to(std::size_t offset) { at_ = offset; }

  // Each reads the next value, which must have that kind.
  bool flag();
  std::string_view number();  // its digits, as they are written
  std::string text();
  // Calls each(), which reads one element.
  template <class F>
  void list(F&& each) {
    open('[');
    if (closes(']')) return;
    do each();
    while (continues(']'));
  }
  // Calls member(key), which reads the value of this key. Keys may be repeated.
  template <class F>
  void object(F&& member) {
    open('{');
    if (closes('}')) return;
    do {
      const std::string key = key_and_colon();
      member(key);
    } while (continues('}'));
  }
  // Reads the next value, whatever it is, and checks that it is JSON.
  void skip();
  // The next value for messages, which is read: at most 60 bytes of a number or a text.
  std::string shown();
  // Only space is left.
  void finish();

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  char next() { return at_ < text_.size() ? text_[at_] : '\0'; }
  void open(char bracket);
  bool closes(char bracket);
  bool continues(char bracket);
  std::string key_and_colon();
  void word(std::string_view expected);
  void digits();
  template <class Sink>
  void read_text(Sink&& sink);
  template <class Sink>
  void escape(Sink&& sink);
  unsigned four_hex_digits();
  std::size_t utf8_bytes() const;
  [[noreturn]] void fail(std::string_view expected) const;

  std::string_view text_;
  std::size_t at_ = 0;
  int level_ = 0;
  int most_levels_;
};

}  // namespace etude::serve
