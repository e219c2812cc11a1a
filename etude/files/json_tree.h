// SPDX-License-Identifier: Apache-2.0
// JSON values of nlohmann::json that need no memory to be destroyed. The destructor of such a value
// moves nested values into a vector first. Without memory this vector throws, and the process ends.
// Readers parse by JsonTree, also since a parser destroys a half-made value when memory ends.
#pragma once

#include <concepts>
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
  // Parses a text that count_json() has passed. The root is discarded (is_discarded()) if the text
  // is not JSON. Of equal keys of an object the last one counts. throws: std::bad_alloc.
  explicit JsonTree(std::string_view text) : JsonTree(Json(nullptr)) {
    // From here on an exception runs the destructor.
    Builder builder(root_);
    if (Json::sax_parse(text, &builder)) return;
    release_json(root_);
    root_ = Json(Json::value_t::discarded);
  }
  template <std::same_as<Json> J>
  explicit JsonTree(J value) noexcept : root_(std::move(value)) {}
  JsonTree(JsonTree&& other) noexcept : root_(std::move(other.root_)) {}
  JsonTree& operator=(const JsonTree&) = delete;
  ~JsonTree() { release_json(root_); }

  const Json& root() const noexcept { return root_; }
  Json& root() noexcept { return root_; }

 private:
  // Adds the events of the parser to a value that the tree owns.
  class Builder {
   public:
    explicit Builder(Json& root) : root_(root) {}

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
      member_ = &(*open_.back()->template get_ptr<typename Json::object_t*>())[name];
      release_json(*member_);  // the value of an equal key before
      return true;
    }
    template <class Error>
    bool parse_error(std::size_t, const std::string&, const Error&) {
      return false;
    }

   private:
    // The place of the next value.
    Json& place() {
      if (open_.empty()) return root_;
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

    Json& root_;
    std::vector<Json*> open_;  // the values that are being filled, the outermost first
    Json* member_ = nullptr;   // the value of the latest key
  };

  Json root_ = nullptr;
};

}  // namespace etude::internal
