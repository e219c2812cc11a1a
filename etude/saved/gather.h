// SPDX-License-Identifier: Apache-2.0
// Gathers the content of a folder from live functions and objects. Used by save().
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/saved/content.h"
#include "etude/saved/saved.h"

namespace etude::saved::internal {

struct Gathered {
  Content content;
  std::vector<std::string> warnings;  // for save(): things that a loaded program will lack
};
// throws: see save().
Gathered gather(const std::vector<Entry>& entries, const SaveOptions& options);

// State and constants, each stored once.
class Store {
 public:
  explicit Store(Content& to) : to_(to) {}

  // Adds a path to the Variable, which gets an index with its first path.
  int64_t add(const Variable& variable, std::string path);
  // State of a loaded program keeps its facts.
  int64_t add(const SavedVariable& variable, const std::string& prefix);
  // State that is no Variable yet.
  int64_t add_state(std::string path, const Tensor& value, bool is_trained);
  // -1: unknown.
  int64_t find(const void* cell) const;
  // The Variables of Trackables, which are added when a function uses them.
  void expect(std::string path, const void* cell) { expected_[cell].push_back(std::move(path)); }
  // The index of a Variable that a function uses; -1 if no entry reaches it.
  int64_t reach(const Variable& variable);
  // Tensors with equal elements have the same index.
  int64_t constant(const Tensor& value);

 private:
  void claim(const std::string& path);

  Content& to_;
  std::unordered_map<const void*, int64_t> by_cell_;
  std::unordered_map<const void*, std::vector<std::string>> expected_;
  std::set<std::string> paths_;
  std::unordered_multimap<uint64_t, int64_t> constants_;  // by checksum
};

}  // namespace etude::saved::internal
