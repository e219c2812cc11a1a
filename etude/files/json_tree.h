// SPDX-License-Identifier: Apache-2.0
// JSON values of nlohmann::json that need no memory to be destroyed. The destructor of such a value
// moves nested values into a vector first. Without memory this vector throws, and the process ends.
// Readers parse by JsonTree, also since a parser destroys a half-made value when memory ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace etude::internal {

// Destroys the elements of a value, from the inside. Allocates nothing: the destructor of a value
// without elements does not. Recurses as deep as the value: see count_json() in read_budget.h.
template <class Json>
void release_json(Json& value) noexcept {
  if (auto* const list = value.template get_ptr<typename Json::array_t*>()) {
    for (Json& element : *list) release_json(element);
    list->clear();
  } else if (auto* const object = value.template get_ptr<typename Json::object_t*>()) {
    for (auto& [key, element] : *object) release_json(element);
    object->clear();
  }
}

// Owns a value. threads: thread-compatible.
template <class Json>
class JsonTree {
 public:
  // Parses a text that count_json() has passed. throws: std::bad_alloc.
  explicit JsonTree(std::string_view text) : JsonTree(nullptr) {
    // From here on an exception runs the destructor.
    Builder builder(*this);
    if (!Json::sax_parse(text, &builder)) discard();
  }
  // The value that `fill` makes of null. Discarded if `fill` returns false.
  template <class Fill>
  static JsonTree filled(const Fill& fill) {
    JsonTree out(nullptr);
    if (!fill(out.root_)) out.discard();
    return out;
  }
  JsonTree(JsonTree&& other) noexcept
      : root_(std::move(other.root_)),
        error_(std::move(other.error_)),
        repeated_key_(std::move(other.repeated_key_)) {}
  JsonTree& operator=(const JsonTree&) = delete;
  ~JsonTree() { release_json(root_); }

  // Discarded (is_discarded()) if the text is not JSON. Of equal keys of an object the last one
  // counts.
  const Json& root() const noexcept { return root_; }
  // Why the text is not JSON, and where: "parse error at line 1, ..."; "" if it is.
  const std::string& error() const noexcept { return error_; }
  // A key that an object has twice, the first in the text; "" if there is none.
  const std::string& repeated_key() const noexcept { return repeated_key_; }

 private:
  // Adds the events of the parser to a value that the tree owns.
  class Builder {
   public:
    explicit Builder(JsonTree& tree) : tree_(tree) {}

    bool null() { return add(nullptr); }
    bool boolean(bool x) { return add(x); }
    bool number_integer(int64_t x) { return add(x); }
    bool number_unsigned(uint64_t x) { return add(x); }
    bool number_float(double x, const std::string& /*text*/) { return add(x); }
    bool string(std::string& x) { return add(std::move(x)); }
    bool binary(typename Json::binary_t& /*bytes*/) { return false; }
    bool start_object(std::size_t /*size*/) { return open(Json::value_t::object); }
    bool start_array(std::size_t /*size*/) { return open(Json::value_t::array); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
      auto& object = *open_.back()->template get_ptr<typename Json::object_t*>();
      const auto [at, is_new] = object.emplace(name, nullptr);
      member_ = &at->second;
      if (is_new) return true;
      release_json(*member_);
      if (tree_.repeated_key_.empty()) tree_.repeated_key_ = name;
      return true;
    }
    template <class Error>
    bool parse_error(std::size_t, const std::string&, const Error& error) {
      // The text is "[json.exception.parse_error.101] parse error at line 1, ...".
      const std::string_view text = error.what();
      const std::size_t tag = text.find("] ");
      tree_.error_ = text.substr(tag == std::string_view::npos ? 0 : tag + 2);
      return false;
    }

   private:
    // The place of the next value.
    Json& place() {
      if (open_.empty()) return tree_.root_;
      if (auto* const list = open_.back()->template get_ptr<typename Json::array_t*>()) {
        return list->emplace_back();
      }
      return *member_;
    }
    template <class X>
    bool add(X&& value) {
      place() = Json(std::forward<X>(value));
      return true;
    }
    bool open(typename Json::value_t kind) {
      Json& made = place();
      made = Json(kind);
      open_.push_back(&made);
      return true;
    }
    bool close() {
      open_.pop_back();
      return true;
    }

    JsonTree& tree_;
    std::vector<Json*> open_;  // the values that are being filled, the outermost first
    Json* member_ = nullptr;   // the value of the latest key
  };

  explicit JsonTree(std::nullptr_t) noexcept {}

  void discard() {
    release_json(root_);
    root_ = Json(Json::value_t::discarded);
  }

  Json root_ = nullptr;
  std::string error_, repeated_key_;
};

}  // namespace etude::internal
