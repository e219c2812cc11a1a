// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/linalg/einsum_equation.h"

#include <algorithm>
#include <cstddef>

#include "etude/base/check.h"

namespace etude::ops {
namespace {

// One side of a comma.
struct Term {
  std::vector<int> before, after;  // letters around the ellipsis; all in `before` without one
  bool has_ellipsis = false;

  std::size_t letters() const { return before.size() + after.size(); }
};

int letter_label(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return 26 + c - 'a';
  return -1;
}

// The form of a character, which may be any byte, in a message.
std::string shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f ? fmt::format("'{}'", c) : fmt::format("byte {:#04x}", byte);
}

Term parse_term(std::string_view text) {
  Term term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      ETUDE_REQUIRE(!term.has_ellipsis, "the equation has two ellipses in one term. Use one");
      term.has_ellipsis = true;
      i += 2;
      continue;
    }
    const int label = letter_label(text[i]);
    ETUDE_REQUIRE(label >= 0,
                  "the equation holds {}, but may hold letters, ',', '...' and one '->'",
                  shown(text[i]));
    (term.has_ellipsis ? term.after : term.before).push_back(label);
  }
  return term;
}

std::vector<Term> parse_terms(std::string_view text) {
  std::vector<Term> out;
  for (;;) {
    const std::size_t comma = text.find(',');
    out.push_back(parse_term(text.substr(0, comma)));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

// The labels of a term whose ellipsis covers `axes` axes.
std::vector<int> labels_of(const Term& term, int axes) {
  std::vector<int> out = term.before;
  for (int i = axes - 1; i >= 0; --i) out.push_back(kEllipsisLabel + i);
  out.insert(out.end(), term.after.begin(), term.after.end());
  return out;
}

std::vector<int> implicit_result(const EinsumEquation& equation, int ellipsis) {
  std::vector<int> count(kEllipsisLabel, 0);
  for (const std::vector<int>& labels : equation.operands) {
    for (const int label : labels) {
      if (label < kEllipsisLabel) ++count[static_cast<std::size_t>(label)];
    }
  }
  std::vector<int> out;
  for (int i = ellipsis - 1; i >= 0; --i) out.push_back(kEllipsisLabel + i);
  for (int label = 0; label < kEllipsisLabel; ++label) {
    if (count[static_cast<std::size_t>(label)] == 1) out.push_back(label);
  }
  return out;
}

std::vector<int> explicit_result(const EinsumEquation& equation, std::string_view text,
                                 int ellipsis) {
  const Term term = parse_term(text);
  ETUDE_REQUIRE(term.has_ellipsis || ellipsis == 0,
                "the result of the equation has no '...', but the operands have {} axes at '...'. "
                "Write it on both sides, or sum over its axes first",
                ellipsis);
  std::vector<int> out = labels_of(term, ellipsis);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto known = [&](const std::vector<int>& labels) {
      return std::ranges::count(labels, out[i]) > 0;
    };
    ETUDE_REQUIRE(std::ranges::any_of(equation.operands, known),
                  "the result of the equation has '{}', which no operand has", label_name(out[i]));
    ETUDE_REQUIRE(std::ranges::count(out, out[i]) == 1, "the result of the equation has '{}' twice",
                  label_name(out[i]));
  }
  return out;
}

}  // namespace

EinsumEquation parse_einsum(std::string_view text, std::span<const int> ranks) {
  const std::size_t arrow = text.find("->");
  const std::vector<Term> terms = parse_terms(text.substr(0, arrow));
  ETUDE_REQUIRE(!ranks.empty(), "there is no operand. Give as many as the equation has terms");
  ETUDE_REQUIRE(terms.size() == ranks.size(),
                "the equation has {} terms, but there are {} operands", terms.size(), ranks.size());
  EinsumEquation out;
  int ellipsis = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const int axes = ranks[i] - static_cast<int>(terms[i].letters());
    ETUDE_REQUIRE(terms[i].has_ellipsis ? axes >= 0 : axes == 0,
                  "operand {} has {} axes, but term {} of the equation names {}{}", i, ranks[i], i,
                  terms[i].has_ellipsis ? "at least " : "", terms[i].letters());
    ellipsis = std::max(ellipsis, axes);
    out.operands.push_back(labels_of(terms[i], axes));
  }
  out.result = arrow == std::string_view::npos
                   ? implicit_result(out, ellipsis)
                   : explicit_result(out, text.substr(arrow + 2), ellipsis);
  return out;
}

std::string label_name(int label) {
  if (label >= kEllipsisLabel) return fmt::format("axis -{} of ...", label - kEllipsisLabel + 1);
  return std::string(1, static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
}

}  // namespace etude::ops
