// SPDX-License-Identifier: Apache-2.0
// Writes JSON as text, without values of nlohmann::json that have elements: those need memory to be
// destroyed (json_tree.h). All JSON of this library is written here.
//
//   JsonWriter out;
//   out.object([&] {
//     out.member("name", name);
//     out.member("sizes", [&] { out.list(sizes); });
//   });
//   file.write(out.text());
//
// Members stay in the order in which they are written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace etude::internal {

// threads: confined to one writer.
class JsonWriter {
 public:
  // Texts that are not UTF-8 have bytes replaced, or are refused.
  enum class Texts { kReplaced, kRefused };
  // `indent`: spaces for each level of brackets, each member and element on a line of its own;
  // 0: one line without spaces.
  explicit JsonWriter(Texts texts = Texts::kRefused, int indent = 0)
      : on_error_(texts == Texts::kReplaced ? nlohmann::json::error_handler_t::replace
                                            : nlohmann::json::error_handler_t::strict),
        indent_(indent) {}

  // null, a bool, a number or a text. Infinities and NaN are null.
  // throws: nlohmann::json::exception for a refused text.
  template <class X>
  void value(const X& x) {
    next();
    if constexpr (std::is_arithmetic_v<X> || std::is_null_pointer_v<X>) {
      out_ += nlohmann::json(x).dump();
    } else {
      out_ += nlohmann::json(std::string(std::string_view(x))).dump(-1, ' ', false, on_error_);
    }
  }
  // JSON that is text already.
  void raw(std::string_view json) {
    next();
    out_ += json;
  }
  // An object. `members` writes its members, by member().
  template <class F>
  void object(const F& members) {
    bracket('{', members, '}');
  }
  // A member. `x` is a value, or a function without parameters that writes the value.
  template <class X>
  void member(std::string_view key, const X& x) {
    value(key);
    out_ += indent_ > 0 ? ": " : ":";
    is_first_ = is_value_ = true;
    if constexpr (std::is_invocable_v<const X&>) {
      x();
    } else {
      value(x);
    }
  }
  // Each item as `write` writes it.
  template <class Items, class F>
  void list(const Items& items, const F& write) {
    bracket(
        '[',
        [&] {
          for (const auto& item : items) write(item);
        },
        ']');
  }
  template <class Items>
  void list(const Items& items) {
    list(items, [this](const auto& item) { this->value(item); });
  }
  // A list of two values: `first` writes one, `second` the other.
  template <class F, class G>
  void pair(const F& first, const G& second) {
    bracket(
        '[',
        [&] {
          first();
          second();
        },
        ']');
  }

  const std::string& text() const { return out_; }

 private:
  // The comma and the line before a member or an element.
  void next() {
    if (!is_first_) out_ += ',';
    if (depth_ > 0 && !is_value_) line();
    is_first_ = is_value_ = false;
  }
  void line() {
    if (indent_ == 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(depth_), ' ');
  }
  template <class F>
  void bracket(char begin, const F& inside, char end) {
    next();
    out_ += begin;
    ++depth_;
    is_first_ = true;
    inside();
    --depth_;
    if (!is_first_) line();
    is_first_ = false;
    out_ += end;
  }

  const nlohmann::json::error_handler_t on_error_;
  const int indent_;
  std::string out_;
  int depth_ = 0;
  bool is_first_ = true;   // nothing of the bracket is written yet
  bool is_value_ = false;  // of a member, whose key is written
};

}  // namespace etude::internal
