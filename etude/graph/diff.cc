// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/diff.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/core/internal/host_door.h"
#include "etude/graph/line_diff.h"
#include "etude/graph/text/constant_text.h"
#include "etude/graph/text/names.h"
#include "etude/graph/text/print.h"

namespace etude {
namespace {

using internal::GraphList;
using Fact = std::optional<std::string>;

std::string differs(std::string_view what, std::string_view a, std::string_view b) {
  return fmt::format("{} is {} in the first graph and {} in the second", what, a, b);
}
Fact count_differs(std::string_view what, std::size_t a, std::size_t b) {
  if (a == b) return std::nullopt;
  return fmt::format("the first graph has {} {}, the second {}", a, what, b);
}

// Two graphs, and the names of their values.
class Pair {
 public:
  Pair(const Graph& a, const Graph& b, const GraphList& of_a, const GraphList& of_b)
      : a_(a),
        b_(b),
        of_a_(of_a),
        of_b_(of_b),
        names_a_(internal::value_names(a)),
        names_b_(internal::value_names(b)) {}

  // The first difference; none if it is in two graphs that both have in an attribute: inner().
  Fact find() {
    if (Fact fact = inputs()) return fact;
    if (Fact fact = constants()) return fact;
    for (std::size_t i = 0; i < std::min(a_.size(), b_.size()); ++i) {
      if (Fact fact = node(i)) return fact;
      if (inner_) return std::nullopt;
    }
    if (Fact fact = count_differs("nodes", a_.size(), b_.size())) return fact;
    return outputs();
  }
  const std::optional<std::pair<const Graph*, const Graph*>>& inner() const { return inner_; }
  // The node of the first graph whose attribute is inner().
  const std::string& holder() const { return holder_; }

 private:
  static std::string name(const std::vector<std::string>& names, GraphValue v) {
    return v == kNoValue ? "none" : names[v];
  }

  Fact inputs() const {
    if (Fact fact = count_differs("inputs", a_.inputs().size(), b_.inputs().size())) return fact;
    for (std::size_t i = 0; i < a_.inputs().size(); ++i) {
      const Graph::Input &x = a_.inputs()[i], &y = b_.inputs()[i];
      const std::string what = "input " + names_a_[i];
      if (x.role != y.role)
        return differs(what, internal::role_text(x.role).words, internal::role_text(y.role).words);
      if (x.type == y.type) continue;
      return differs(what, internal::type_text(x.type), internal::type_text(y.type));
    }
    return std::nullopt;
  }

  Fact constants() const {
    const auto a = a_.constants(), b = b_.constants();
    if (Fact fact = count_differs("constants", a.size(), b.size())) return fact;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::string what = "constant " + names_a_[a_.first_constant() + i];
      if (a[i].type() != b[i].type()) {
        return differs(what, internal::type_text(a[i].type()), internal::type_text(b[i].type()));
      }
      if (same_value(a[i], b[i])) continue;
      const Tensor home_a = internal::at_home(a[i]), home_b = internal::at_home(b[i]);
      const auto* bytes_a = static_cast<const char*>(internal::host_elements(home_a));
      const auto* bytes_b = static_cast<const char*>(internal::host_elements(home_b));
      const auto at = std::mismatch(bytes_a, bytes_a + a[i].nbytes(), bytes_b).first - bytes_a;
      const int64_t element = at / itemsize(a[i].dtype());
      return differs(fmt::format("element {} of {}", element, what),
                     internal::element_text(a[i], element), internal::element_text(b[i], element));
    }
    return std::nullopt;
  }

  Fact node(std::size_t i) {
    const Graph::Node x = a_.node(i), y = b_.node(i);
    if (&x.op != &y.op) {
      return differs(fmt::format("node {}", i), internal::op_text(x.op), internal::op_text(y.op));
    }
    const std::string result = x.results > 0 ? names_a_[x.first_result] + " = " : "";
    const std::string place = result + internal::op_text(x.op) + ": ";
    const auto told = [&](std::string_view what, std::string_view a, std::string_view b) {
      return differs(place + std::string(what), a, b);
    };
    if (Fact fact = count_differs("operands", x.operands.size(), y.operands.size())) {
      return place + *fact;
    }
    for (std::size_t k = 0; k < x.operands.size(); ++k) {
      if (x.operands[k] == y.operands[k]) continue;
      return told(fmt::format("operand '{}'", internal::operand_label(x.op, k)),
                  name(names_a_, x.operands[k]), name(names_b_, y.operands[k]));
    }
    if (Fact fact = attrs(x, y, place)) return fact;
    if (inner_) return std::nullopt;
    if (Fact fact = count_differs("results", x.results, y.results)) return place + *fact;
    for (uint32_t r = 0; r < x.results; ++r) {
      const Type *of_x = a_.type(x.first_result + r), *of_y = b_.type(y.first_result + r);
      if (of_x == of_y) continue;
      return told(fmt::format("result {}", r), internal::type_text(of_x),
                  internal::type_text(of_y));
    }
    return std::nullopt;
  }

  Fact attrs(const Graph::Node& x, const Graph::Node& y, const std::string& place) {
    for (std::size_t k = 0; k < x.attrs.defs().size(); ++k) {
      const AttrValue &of_x = x.attrs.values()[k], &of_y = y.attrs.values()[k];
      if (AttrView(of_x).is(of_y)) continue;
      const auto in_x = internal::graphs_in(of_x), in_y = internal::graphs_in(of_y);
      const auto both = std::views::iota(std::size_t{0}, std::min(in_x.size(), in_y.size()));
      const auto first = std::ranges::find_if(both, [&](std::size_t g) {
        return in_x[g] != nullptr && in_y[g] != nullptr && !in_x[g]->same(*in_y[g]);
      });
      if (first != both.end()) {
        inner_.emplace(in_x[*first], in_y[*first]);
        holder_ = fmt::format("{}attribute '{}', {}: ", place, x.attrs.defs()[k].name,
                              internal::attr_text(of_x, of_a_));
        return std::nullopt;
      }
      return differs(fmt::format("{}attribute '{}'", place, x.attrs.defs()[k].name),
                     internal::attr_text(of_x, of_a_), internal::attr_text(of_y, of_b_));
    }
    return std::nullopt;
  }

  Fact outputs() const {
    const auto a = a_.outputs(), b = b_.outputs();
    if (Fact fact = count_differs("outputs", a.size(), b.size())) return fact;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      return differs(fmt::format("output {}", i), name(names_a_, a[i]), name(names_b_, b[i]));
    }
    return std::nullopt;
  }

  const Graph &a_, &b_;
  const GraphList &of_a_, &of_b_;
  std::vector<std::string> names_a_, names_b_;
  std::optional<std::pair<const Graph*, const Graph*>> inner_;
  std::string holder_;
};

// A difference in graphs that both have in the same attribute is described in terms of those.
std::string first_difference(const Graph& main_a, const Graph& main_b) {
  const GraphList of_a(main_a), of_b(main_b);
  const Graph *a = &main_a, *b = &main_b;
  std::string place;
  for (;;) {
    Pair pair(*a, *b, of_a, of_b);
    if (Fact fact = pair.find()) return place + *fact;
    if (!pair.inner()) return place + "the graphs differ in a part that has no text";
    place += pair.holder();
    std::tie(a, b) = *pair.inner();
  }
}

}  // namespace

std::string diff(const Graph& a, const Graph& b) {
  const bool is_same = a.same(b);
  if (is_same && to_text(a) == to_text(b)) return "";
  const TextOptions options{.elide_constants = true, .call_sites = is_same};
  const std::string words =
      is_same ? "the graphs compute the same; names or lines differ" : first_difference(a, b);
  return words + "\n" + internal::line_diff(to_text(a, options), to_text(b, options));
}

}  // namespace etude
