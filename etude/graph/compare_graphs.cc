// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/symbolic_parts.h"
#include "etude/graph/text/names.h"

namespace etude::internal {
namespace {

// Larger constants must be equal: they are not explained by formulas.
constexpr int64_t kMostElements = 16;

using Fact = std::optional<std::string>;
using Known = std::map<std::vector<const Graph*>, std::shared_ptr<const SymbolicParts>>;

template <class T>
bool all_equal(const std::vector<T>& items) {
  return std::ranges::all_of(items, [&](const T& x) { return x == items.front(); });
}

class Comparison {
 public:
  Comparison(SymbolicParts& parts, const SizePoints& points, Known& known)
      : parts_(parts), points_(points), known_(known), names_(value_names(parts.first())) {}

  Fact find() {
    if (Fact fact = counts()) return fact;
    for (std::size_t i = 0; i < parts_.first().inputs().size(); ++i) {
      if (Fact fact = input(i)) return fact;
    }
    for (std::size_t i = 0; i < parts_.first().constants().size(); ++i) {
      if (Fact fact = constant(i)) return fact;
    }
    for (std::size_t i = 0; i < least_nodes(); ++i) {
      if (Fact fact = node(i)) return place(i) + *fact + line(i);
    }
    const auto sizes = each<std::size_t>([](const Graph& g) { return g.size(); });
    if (!all_equal(sizes))
      return fmt::format("the graphs have {} nodes", fmt::join(sizes, " and "));
    const auto outputs = each<std::vector<GraphValue>>(
        [](const Graph& g) { return std::vector(g.outputs().begin(), g.outputs().end()); });
    if (!all_equal(outputs)) return "the outputs are results of other nodes";
    return std::nullopt;
  }

 private:
  template <class T, class Get>
  std::vector<T> each(const Get& get) const {
    std::vector<T> out;
    for (const GraphRef& graph : parts_.graphs) out.push_back(get(*graph));
    return out;
  }
  std::size_t least_nodes() const {
    return std::ranges::min(each<std::size_t>([](const Graph& g) { return g.size(); }));
  }
  std::string place(std::size_t i) const {
    const Graph::Node node = parts_.first().node(i);
    const std::string result = node.results > 0 ? names_[node.first_result] + " = " : "";
    return fmt::format("node {}, {}{}: ", i, result, op_text(node.op));
  }
  std::string line(std::size_t i) const {
    const CallSite where = parts_.first().node(i).where;
    return where.known() ? fmt::format("  # {}:{}", where.file, where.line) : "";
  }

  Fact counts() const {
    const auto inputs = each<std::size_t>([](const Graph& g) { return g.inputs().size(); });
    if (!all_equal(inputs))
      return fmt::format("the graphs have {} inputs", fmt::join(inputs, " and "));
    const auto constants = each<std::size_t>([](const Graph& g) { return g.constants().size(); });
    if (all_equal(constants)) return std::nullopt;
    return fmt::format("the graphs have {} constants", fmt::join(constants, " and "));
  }

  Fact input(std::size_t i) {
    const auto roles = each<InputRole>([&](const Graph& g) { return g.inputs()[i].role; });
    const std::string what = "input " + names_[i];
    if (!all_equal(roles)) return what + " is of another role";
    return types(static_cast<GraphValue>(i), what, /*needs_formula=*/true);
  }

  // Result sizes may follow from type rules; input sizes need formulas.
  Fact types(GraphValue value, const std::string& what, bool needs_formula) {
    const auto types = each<const Type*>([&](const Graph& g) { return g.type(value); });
    if (all_equal(types)) return std::nullopt;
    const auto differ = [&](const Type* t) {
      const Type* first = types.front();
      return t == nullptr || first == nullptr || t->dtype() != first->dtype() ||
             t->rank() != first->rank() || t->device() != first->device();
    };
    const auto told = [&] {
      std::vector<std::string> texts;
      for (const Type* type : types) texts.push_back(type_text(type));
      return fmt::format("{} is {}", what, fmt::join(texts, " and "));
    };
    if (std::ranges::any_of(types, differ)) return told();
    for (int axis = 0; axis < types.front()->rank(); ++axis) {
      const auto seen = each<int64_t>([&](const Graph& g) { return g.type(value)->shape()[axis]; });
      if (all_equal(seen)) continue;
      SizeNumber number = explain_sizes(seen, points_);
      const bool broadcasts = std::ranges::any_of(seen, [](int64_t size) { return size < 2; });
      if ((number.formulas.empty() && needs_formula) || broadcasts) return told();
      parts_.types.push_back({value, axis, std::move(number)});
    }
    return std::nullopt;
  }

  // A number at one place of all graphs, and its value in each graph as text.
  template <class Get>
  Fact number(DType dtype, const Get& get,
              const std::function<void(std::variant<SizeNumber, RealNumber>)>& keep) const {
    if (is_integer(dtype)) {
      std::vector<int64_t> seen;
      for (std::size_t k = 0; k < parts_.graphs.size(); ++k) seen.push_back(get(k, int64_t{}));
      if (all_equal(seen)) return std::nullopt;
      SizeNumber found = explain_sizes(seen, points_);
      if (found.formulas.empty()) return fmt::format("{}", fmt::join(seen, " and "));
      keep(std::move(found));
      return std::nullopt;
    }
    std::vector<double> seen;
    for (std::size_t k = 0; k < parts_.graphs.size(); ++k) seen.push_back(get(k, double{}));
    const auto same_bits = [&](double x) {
      return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(seen.front());
    };
    if (std::ranges::all_of(seen, same_bits)) return std::nullopt;
    RealNumber found = explain_reals(seen, dtype, points_);
    if (found.formulas.empty()) return fmt::format("{}", fmt::join(seen, " and "));
    keep(std::move(found));
    return std::nullopt;
  }

  Fact constant(std::size_t i) {
    const auto values = each<Tensor>([&](const Graph& g) { return g.constants()[i]; });
    const std::string what = "constant " + names_[parts_.first().first_constant() + i];
    const Tensor& first = values.front();
    if (std::ranges::all_of(values, [&](const Tensor& x) { return same_value(x, first); })) {
      return std::nullopt;
    }
    const bool is_other =
        std::ranges::any_of(values, [&](const Tensor& x) { return x.type() != first.type(); });
    const bool is_number = is_integer(first.dtype()) || is_floating(first.dtype());
    if (is_other || !is_number || first.size() > kMostElements) return what + " differs";
    for (int64_t e = 0; e < first.size(); ++e) {
      const auto get = [&]<class T>(std::size_t k, T value) {
        const Tensor home = internal::at_home(values[k]);
        const auto* bytes = static_cast<const char*>(internal::host_elements(home));
        convert_elements(&value, dtype_of<T>, bytes + e * itemsize(first.dtype()), first.dtype(),
                         1);
        return value;
      };
      const Fact fact = number(first.dtype(), get, [&](auto found) {
        parts_.constants.push_back({i, e, std::move(found)});
      });
      if (fact) return fmt::format("element {} of {} is {}", e, what, *fact);
    }
    return std::nullopt;
  }

  Fact node(std::size_t i) {
    const Graph::Node first = parts_.first().node(i);
    for (const GraphRef& graph : parts_.graphs) {
      const Graph::Node other = graph->node(i);
      if (&other.op != &first.op)
        return fmt::format("it is {} at the other sizes", op_text(other.op));
      if (!std::ranges::equal(other.operands, first.operands) || other.results != first.results) {
        return "it has other operands at the other sizes";
      }
    }
    for (std::size_t k = 0; k < first.attrs.values().size(); ++k) {
      if (Fact fact = attr(i, k)) {
        return fmt::format("attribute '{}' is {}", first.attrs.defs()[k].name, *fact);
      }
    }
    for (uint32_t r = 0; r < first.results; ++r) {
      if (Fact fact = types(first.first_result + r, "the result", /*needs_formula=*/false))
        return fact;
    }
    return std::nullopt;
  }

  Fact attr(std::size_t i, std::size_t k) {
    std::vector<const AttrValue*> values;
    for (const GraphRef& graph : parts_.graphs) values.push_back(&graph->node(i).attrs.values()[k]);
    const AttrValue& first = *values.front();
    const auto is_first = [&](const AttrValue* v) { return AttrView(*v).is(first); };
    if (std::ranges::all_of(values, is_first)) return std::nullopt;
    const auto other_kind = [&](const AttrValue* v) { return v->index() != first.index(); };
    if (std::ranges::any_of(values, other_kind)) return "of another kind at the other sizes";
    if (!graphs_in(first).empty()) return all_inner(i, k, values);
    if (std::holds_alternative<int64_t>(first)) {
      return attr_number(i, k, 0, kInt64,
                         [&](std::size_t g, auto) { return std::get<int64_t>(*values[g]); });
    }
    if (std::holds_alternative<double>(first)) {
      return attr_number(i, k, 0, kFloat64,
                         [&](std::size_t g, auto) { return std::get<double>(*values[g]); });
    }
    if (std::holds_alternative<std::vector<int64_t>>(first))
      return list<int64_t>(i, k, kInt64, values);
    if (std::holds_alternative<std::vector<double>>(first))
      return list<double>(i, k, kFloat64, values);
    return "another at the other sizes";
  }

  template <class Get>
  Fact attr_number(std::size_t i, std::size_t k, std::size_t e, DType dtype, const Get& get) {
    const auto as_asked = [&]<class T>(std::size_t g, T) { return static_cast<T>(get(g, T{})); };
    return number(dtype, as_asked, [&](auto found) {
      parts_.attrs.push_back({i, k, e, std::move(found)});
    });
  }

  template <class T>
  Fact list(std::size_t i, std::size_t k, DType dtype,
            const std::vector<const AttrValue*>& values) {
    const std::size_t size = std::get<std::vector<T>>(*values.front()).size();
    for (const AttrValue* value : values) {
      const std::size_t other = std::get<std::vector<T>>(*value).size();
      if (other != size) return fmt::format("a list of {} and of {} numbers", size, other);
    }
    for (std::size_t e = 0; e < size; ++e) {
      const auto get = [&](std::size_t g, auto) { return std::get<std::vector<T>>(*values[g])[e]; };
      if (Fact fact = attr_number(i, k, e, dtype, get)) return fact;
    }
    return std::nullopt;
  }

  Fact all_inner(std::size_t i, std::size_t k, const std::vector<const AttrValue*>& values) {
    std::vector<std::vector<const Graph*>> lists;
    for (const AttrValue* value : values) lists.push_back(graphs_in(*value));
    for (const auto& list : lists) {
      if (list.size() != lists[0].size()) return "a list of another length at the other sizes";
    }
    for (std::size_t e = 0; e < lists[0].size(); ++e) {
      std::vector<const Graph*> graphs;
      for (const auto& list : lists) graphs.push_back(list[e]);
      const auto is_first = [&](const Graph* g) { return g->same(*graphs[0]); };
      if (std::ranges::all_of(graphs, is_first)) continue;
      if (Fact fact = inner({i, k, e, {}}, graphs)) return fact;
    }
    return std::nullopt;
  }

  Fact inner(SymbolicParts::InnerSpot spot, const std::vector<const Graph*>& graphs) {
    std::shared_ptr<const SymbolicParts>& known = known_[graphs];
    if (known == nullptr) {
      auto made = std::make_shared<SymbolicParts>();
      for (const Graph* graph : graphs) made->graphs.emplace_back(graph);
      Comparison comparison(*made, points_, known_);
      if (Fact fact = comparison.find())
        return fmt::format("{}, where {}", graphs[0]->to_string(), *fact);
      known = std::move(made);
    }
    spot.inner = known;
    parts_.inner.push_back(std::move(spot));
    return std::nullopt;
  }

  SymbolicParts& parts_;
  const SizePoints& points_;
  Known& known_;
  std::vector<std::string> names_;
};

}  // namespace

std::string compare_graphs(SymbolicParts& parts, const SizePoints& points) {
  Known known;
  return Comparison(parts, points, known).find().value_or("");
}

}  // namespace etude::internal
