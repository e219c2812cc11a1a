// SPDX-License-Identifier: Apache-2.0
#include "etude/files/read_budget.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "etude/base/check.h"

namespace etude {
namespace {

struct Limits {
  std::mutex mutex;
  ReadLimits now;
};
Limits& limits() {
  static auto* const made = new Limits;  // files may be read while statics are destroyed
  return *made;
}

}  // namespace

ReadLimits read_limits() {
  const std::lock_guard lock(limits().mutex);
  return limits().now;
}

ReadLimits set_read_limits(const ReadLimits& changed, CallSite where) {
  internal::check_options("set_read_limits", changed, where);
  const std::lock_guard lock(limits().mutex);
  return std::exchange(limits().now, changed);
}

namespace internal {

uint64_t limit_of(int64_t free, int64_t each, uint64_t size) {
  uint64_t out = 0;
  const bool overflows = __builtin_mul_overflow(static_cast<uint64_t>(each), size, &out) ||
                         __builtin_add_overflow(out, static_cast<uint64_t>(free), &out);
  return overflows ? std::numeric_limits<uint64_t>::max() : out;
}

ReadBudget::ReadBudget(std::string_view name, uint64_t file_bytes)
    : name_(name),
      limits_(read_limits()),
      file_bytes_(file_bytes),
      bytes_left_(limit_of(limits_.free_bytes, limits_.bytes_per_byte, file_bytes)),
      items_left_(limit_of(limits_.free_items, limits_.items_per_byte, file_bytes)) {}

std::string ReadBudget::excess() const {
  constexpr std::string_view kRaise =
      "If the file is trusted, raise this limit by set_read_limits()";
  switch (excess_) {
    case Excess::kBytes:
      return fmt::format(
          "its {} bytes need more than {} bytes of memory, which is the limit for a file of this "
          "size. {}",
          file_bytes_, limit_of(limits_.free_bytes, limits_.bytes_per_byte, file_bytes_), kRaise);
    case Excess::kItems:
      return fmt::format(
          "its {} bytes hold more than {} values, which is the limit for a file of this size. {}",
          file_bytes_, limit_of(limits_.free_items, limits_.items_per_byte, file_bytes_), kRaise);
    case Excess::kDepth:
      return fmt::format("it is nested more than {} levels deep. {}", limits_.depth, kRaise);
    case Excess::kNone:
      break;
  }
  return "";
}

void ReadBudget::refuse(uint64_t offset) const {
  ETUDE_THROW(kResourceExhausted, "{}: offset {}: {}", name_, offset, excess());
}

void count_json(std::string_view text, ReadBudget& budget) {
  // Of a value in a list, and of a key with its node in an object of nlohmann's parser.
  constexpr uint64_t kValueBytes = 32, kKeyBytes = 96;
  int64_t depth = 0;
  uint64_t values = 1, keys = 0, texts = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"': {
        const std::size_t begin = at;
        for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
        texts += std::min(at, text.size()) - begin;
        break;
      }
      case '[':
      case '{':
        budget.need_depth(++depth, at);
        ++values;
        break;
      case ']':
      case '}':
        depth = std::max<int64_t>(0, depth - 1);
        break;
      case ',':
        ++values;
        break;
      case ':':
        ++keys;
        break;
      default:
        break;
    }
  }
  budget.need_items(values, 0);
  budget.need_bytes(kValueBytes * values + kKeyBytes * keys + texts, 0);
}

}  // namespace internal
}  // namespace etude
