// SPDX-License-Identifier: Apache-2.0
// The budget of one read of one file: the rest of the limits of read_limits.h. Every reader has a
// budget, and counts memory before it takes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/files/read_limits.h"

namespace etude::internal {

// free + each * size, at most the largest number.
uint64_t limit_of(int64_t free, int64_t each, uint64_t size);

// threads: confined to one reader.
class ReadBudget {
 public:
  // For a file of `file_bytes` bytes. `name`, its name in errors, must outlive the budget.
  ReadBudget(std::string_view name, uint64_t file_bytes);

  // Each counts, and returns whether the limit still holds. For readers with errors of their own
  // form, which contain excess().
  bool has_bytes(uint64_t n) noexcept { return has(n, bytes_left_, Excess::kBytes); }
  bool has_items(uint64_t n = 1) noexcept { return has(n, items_left_, Excess::kItems); }
  bool has_depth(int64_t depth) noexcept {
    if (depth > limits_.depth) excess_ = Excess::kDepth;
    return depth <= limits_.depth;
  }
  // The limit that did not hold, and how to raise it.
  std::string excess() const;

  // The same. throws: kResourceExhausted with the name, `offset` and excess().
  void need_bytes(uint64_t n, uint64_t offset) {
    if (!has_bytes(n)) refuse(offset);
  }
  void need_items(uint64_t n, uint64_t offset) {
    if (!has_items(n)) refuse(offset);
  }
  void need_depth(int64_t depth, uint64_t offset) {
    if (!has_depth(depth)) refuse(offset);
  }

  std::string_view name() const { return name_; }
  const ReadLimits& limits() const { return limits_; }

 private:
  enum class Excess : uint8_t { kNone, kBytes, kItems, kDepth };

  bool has(uint64_t n, uint64_t& left, Excess kind) noexcept {
    if (n > left) {
      excess_ = kind;
      return false;
    }
    left -= n;
    return true;
  }
  [[noreturn]] void refuse(uint64_t offset) const;

  std::string_view name_;
  ReadLimits limits_;
  uint64_t file_bytes_, bytes_left_, items_left_;
  Excess excess_ = Excess::kNone;
};

// Counts the values of a JSON text, and the levels of its brackets, so that a parser and functions
// that walk through its result neither take much memory nor recurse deeply. Call it before any
// parser. A text that is no JSON may pass: the parser refuses it.
//
// throws: kResourceExhausted, with name and offset. cost: one pass over the bytes.
void count_json(std::string_view text, ReadBudget& budget);

}  // namespace etude::internal
