// SPDX-License-Identifier: Apache-2.0
#include "etude/base/scalars/program_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/scalars/check_program.h"

namespace etude::scalar {
namespace {

// The maximum number of operands that finish() can number.
constexpr int kMostOperands = 8;

// Any error in the text ends the parsing: every function then returns false.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Program> read() {
    uint16_t result = 0;
    while (names_definition()) {
      if (!define()) return std::nullopt;
    }
    if (!expression(result, 0) || !text_.empty()) return std::nullopt;
    Program out = finish(builder_, result, operands_, params_, true);
    try {
      check_program(out, kMostOperands);
    } catch (const Error&) {
      return std::nullopt;
    }
    return out;
  }

 private:
  bool names_definition() const {
    const std::size_t end = text_.find_first_not_of("0123456789", 1);
    return text_.starts_with('v') && end != std::string_view::npos &&
           text_.substr(end).starts_with(" = ");
  }

  bool define() {
    int n = 0;
    uint16_t node = 0;
    if (!number_behind('v', n) || n != static_cast<int>(defined_.size())) return false;
    if (!take(" = ") || !expression(node, 0) || !take("; ")) return false;
    defined_.push_back(node);
    return true;
  }

  bool take(std::string_view token) {
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }

  // Parses "x12" as 11.
  bool number_behind(char letter, int& n) {
    if (!text_.starts_with(letter)) return false;
    const char* const begin = text_.data() + 1;
    const auto read = std::from_chars(begin, text_.data() + text_.size(), n);
    if (read.ec != std::errc() || n < 1) return false;
    --n;
    text_.remove_prefix(static_cast<std::size_t>(read.ptr - text_.data()));
    return true;
  }

  bool add(const Node& node, uint16_t& out) {
    if (builder_.size() == nodes_.size()) return false;
    out = builder_.add(node);
    return true;
  }

  bool expression(uint16_t& out, int depth) {
    if (depth > kMaxNodes || text_.empty()) return false;
    const std::size_t end = std::min(text_.find_first_of("(,); "), text_.size());
    const std::string_view word = text_.substr(0, end);
    if (text_.substr(end).starts_with('(')) return call(word, out, depth);
    int n = 0;
    if (word.size() > 1 && word[0] == 'x' && number_behind('x', n)) {
      if (n >= kMostOperands) return false;
      operands_ = std::max(operands_, n + 1);
      return add({Fn::kOperand, {static_cast<uint16_t>(n)}, 0}, out);
    }
    if (word.size() > 1 && word[0] == 'p' && number_behind('p', n)) {
      if (n >= kMaxNodes) return false;
      params_ = std::max(params_, n + 1);
      return add({Fn::kParam, {static_cast<uint16_t>(n)}, 0}, out);
    }
    if (word.size() > 1 && word[0] == 'v' && number_behind('v', n)) {
      if (n >= static_cast<int>(defined_.size())) return false;
      out = defined_[static_cast<std::size_t>(n)];
      return true;
    }
    return constant(word, out);
  }

  bool constant(std::string_view word, uint16_t& out) {
    double value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || read.ec != std::errc() || read.ptr != word.data() + word.size())
      return false;
    text_.remove_prefix(word.size());
    return add({Fn::kConstant, {}, value}, out);
  }

  bool call(std::string_view name, uint16_t& out, int depth) {
    // Some functions without an op have the name of a function with an op.
    const auto* const info = std::ranges::find_if(
        kFnInfo, [name](const FnInfo& each) { return each.op == name && each.on_tensors; });
    if (info == std::end(kFnInfo) || info->arity == 0) return false;
    text_.remove_prefix(name.size() + 1);
    Node node{static_cast<Fn>(info - std::begin(kFnInfo)), {}, 0};
    for (int a = 0; a < info->arity; ++a) {
      if (a > 0 && !take(", ")) return false;
      if (!expression(node.args[static_cast<std::size_t>(a)], depth + 1)) return false;
    }
    return take(")") && add(node, out);
  }

  std::string_view text_;
  std::array<Node, kMaxNodes> nodes_;
  Builder builder_{nodes_.data(), nodes_.size()};
  std::vector<uint16_t> defined_;
  int operands_ = 0;
  int params_ = 0;
};

}  // namespace

std::optional<Program> parse_program(std::string_view text) { return Reader(text).read(); }

}  // namespace etude::scalar
