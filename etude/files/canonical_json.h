// SPDX-License-Identifier: Apache-2.0
// Reads JSON in the form in which dump() writes it: without spaces, with the keys of each object in
// ascending order, and with numbers and texts in the only form that dump() has for them. Files that
// this library writes have this form, so that other texts, such as one with a key twice, are
// refused. Several times as fast as a parser and a comparison with dump().
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "etude/files/json_tree.h"

namespace etude::internal {

// Each function reads a part of the text into its value, and returns false at another text.
class CanonicalJsonReader {
 public:
  using Json = nlohmann::json;

  explicit CanonicalJsonReader(std::string_view text) : rest_(text) {}

  bool whole(Json& to) { return value(to) && rest_.empty(); }

 private:
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  // Recurses as deep as the value: see count_json() in read_budget.h.
  bool value(Json& to) {
    if (rest_.empty()) return false;
    switch (rest_[0]) {
      case '{':
        return object(to);
      case '[':
        return list(to);
      case '"':
        return text(to = Json(Json::value_t::string));
      case 't':
        to = true;
        return take("true");
      case 'f':
        to = false;
        return take("false");
      case 'n':
        to = nullptr;
        return take("null");
      default:
        return number(to);
    }
  }

  bool object(Json& to) {
    to = Json(Json::value_t::object);
    auto& members = *to.get_ptr<Json::object_t*>();
    if (!take("{")) return false;
    if (take("}")) return true;
    do {
      Json key(Json::value_t::string);
      if (!text(key) || !take(":")) return false;
      auto& name = *key.get_ptr<std::string*>();
      if (!members.empty() && !(members.rbegin()->first < name)) return false;
      const auto member = members.emplace_hint(members.end(), std::move(name), nullptr);
      if (!value(member->second)) return false;
    } while (take(","));
    return take("}");
  }

  bool list(Json& to) {
    to = Json(Json::value_t::array);
    auto& elements = *to.get_ptr<Json::array_t*>();
    if (!take("[")) return false;
    if (take("]")) return true;
    do {
      elements.emplace_back();
      if (!value(elements.back())) return false;
    } while (take(","));
    return take("]");
  }

  bool text(Json& to) {
    if (!take("\"")) return false;
    const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    const auto length = static_cast<std::size_t>(
        std::find_if_not(rest_.begin(), rest_.end(), is_plain) - rest_.begin());
    if (length < rest_.size() && rest_[length] == '"') {
      to.get_ptr<std::string*>()->assign(rest_.substr(0, length));
      rest_.remove_prefix(length + 1);
      return true;
    }
    std::size_t end = length;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return false;
    const std::string token = "\"" + std::string(rest_.substr(0, end + 1));
    rest_.remove_prefix(end + 1);
    return rare(token, to) && to.is_string();
  }

  bool number(Json& to) {
    const std::string_view token = rest_.substr(0, rest_.find_first_of(",]}"));
    rest_.remove_prefix(token.size());
    const bool is_negative = token.starts_with('-');
    const std::string_view digits = token.substr(is_negative ? 1 : 0);
    // The types of the parser: unsigned unless there is a sign.
    if (is_negative && !digits.starts_with('0')) {
      if (integer<int64_t>(token, to)) return true;
    } else if (!digits.starts_with('0') || token == "0") {
      if (integer<uint64_t>(token, to)) return true;
    }
    return rare(std::string(token), to) && to.is_number();
  }

  template <class T>
  static bool integer(std::string_view token, Json& to) {
    T n = 0;
    const auto [at, problem] = std::from_chars(token.data(), token.data() + token.size(), n);
    if (problem != std::errc() || at != token.data() + token.size()) return false;
    to = n;
    return true;
  }

  // A number with a fraction, or a text with other characters.
  static bool rare(const std::string& token, Json& to) {
    to = Json::parse(token, nullptr, false);
    try {
      return !to.is_discarded() && to.dump() == token;
    } catch (const Json::type_error&) {  // not UTF-8
      return false;
    }
  }

  std::string_view rest_;
};

// The value of a text that count_json() has passed; discarded (is_discarded()) if the text has
// another form. throws: std::bad_alloc.
inline JsonTree<nlohmann::json> read_canonical_json(std::string_view text) {
  return JsonTree<nlohmann::json>::filled(
      [&](nlohmann::json& to) { return CanonicalJsonReader(text).whole(to); });
}

}  // namespace etude::internal
