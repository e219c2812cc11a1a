// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/symbolic_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/builder.h"
#include "etude/graph/check_call.h"
#include "etude/graph/symbolic_parts.h"
#include "etude/graph/text/names.h"
#include "etude/graph/verify.h"

namespace etude {
namespace {

using internal::RealNumber;
using internal::SizeNumber;
using internal::SizePoints;
using internal::SymbolicParts;

constexpr std::size_t kMostKept = 32;
// The smallest size: smaller sizes broadcast or are empty.
constexpr const char* kSizeNames[internal::kMostSizes] = {"n", "m", "k", "l", "p", "q"};

struct Refusal {
  std::string text;
};

template <class... T>
[[noreturn]] void refuse(fmt::format_string<T...> text, T&&... args) {
  throw Refusal{fmt::format(text, std::forward<T>(args)...)};
}

// The state of one instantiation, shared by the graph and the graphs in its attributes.
struct Instantiated {
  SizePoints points;  // of the graphs that the symbolic graph was found from
  std::map<const SymbolicParts*, GraphRef> inner;
  bool has_rounded_size = false;  // a type has the rounded value of its formula
  bool has_split_unit = false;    // a number was 1 over an integer at all points, and is not here
};

// Substitutes sizes into the numbers of a symbolic graph. throws: Refusal.
class Instantiation {
 public:
  Instantiation(const SymbolicParts& parts, std::span<const int64_t> sizes, Instantiated& shared)
      : parts_(parts),
        first_(parts.first()),
        sizes_(sizes),
        shared_(shared),
        builder_(first_.name()) {}

  GraphRef run() {
    for (std::size_t i = 0; i < first_.inputs().size(); ++i) {
      const Graph::Input& input = first_.inputs()[i];
      builder_.add_input(input.name, input_type(static_cast<GraphValue>(i)), input.role);
    }
    for (std::size_t i = 0; i < first_.constants().size(); ++i) builder_.add_constant(constant(i));
    for (std::size_t i = 0; i < first_.size(); ++i) add_node(i);
    GraphRef made = builder_.finish(first_.outputs(), /*keep_all=*/true);
    // The texts of lines of a parsed graph are owned by that graph.
    made->kept<Graph>("lines", [&] { return parts_.graphs.front(); });
    return made;
  }

 private:
  template <class Value, class Number>
  Value decided(const Number& number) const {
    const std::optional<Value> value = number.at(sizes_);
    if (!value) refuse("a number in it follows from sizes in more than one way");
    return *value;
  }

  // A quotient that is 1 over an integer at all points may be 1 over a size in it.
  double real(const RealNumber& number) {
    const internal::RealFormula& formula = number.formulas.front();
    const auto is_unit = [&](const auto& point) { return formula.is_unit_at(point); };
    shared_.has_split_unit |= std::ranges::all_of(shared_.points, is_unit) && !is_unit(sizes_);
    return decided<double>(number);
  }

  const Type* input_type(GraphValue value) {
    const Type* type = first_.type(value);
    if (next_type_ == parts_.types.size() || parts_.types[next_type_].value != value) return type;
    Shape shape = type->shape();
    for (; next_type_ < parts_.types.size() && parts_.types[next_type_].value == value;
         ++next_type_) {
      const SymbolicParts::TypeSpot& spot = parts_.types[next_type_];
      shape.set(spot.axis, at_least_two(decided<int64_t>(spot.size)));
    }
    return intern_type(type->dtype(), shape, type->device());
  }
  static int64_t at_least_two(int64_t size) {
    if (size < SymbolicGraph::kLeastSize)
      refuse("a size in it would be {}, which may broadcast", size);
    return size;
  }

  Tensor constant(std::size_t i) {
    Tensor value = first_.constants()[i];
    for (;
         next_constant_ < parts_.constants.size() && parts_.constants[next_constant_].constant == i;
         ++next_constant_) {
      const SymbolicParts::ConstantSpot& spot = parts_.constants[next_constant_];
      char* at = static_cast<char*>(etude::internal::host_elements_for_writing(value)) +
                 spot.element * itemsize(value.dtype());
      if (const auto* whole = std::get_if<SizeNumber>(&spot.number)) {
        const auto number = decided<int64_t>(*whole);
        internal::convert_elements(at, value.dtype(), &number, kInt64, 1);
      } else {
        const double number = real(std::get<RealNumber>(spot.number));
        internal::convert_elements(at, value.dtype(), &number, kFloat64, 1);
      }
    }
    return value;
  }

  void add_node(std::size_t i) {
    const Graph::Node node = first_.node(i);
    bool differs = false;
    const Attrs attrs = attrs_of(i, node, differs);
    internal::InlineVector<const Type*, 6> operands;
    for (const GraphValue v : node.operands) {
      operands.push_back(v == kNoValue ? nullptr : builder_.type(v));
      differs = differs || (v != kNoValue && builder_.type(v) != first_.type(v));
    }
    Types results;
    if (differs) {
      results = infer(node, {operands.data(), operands.size()}, attrs);
    } else {
      for (uint32_t r = 0; r < node.results; ++r)
        results.push_back(first_.type(node.first_result + r));
    }
    for (uint32_t r = 0; r < node.results; ++r) check_type(node.first_result + r, results[r]);
    builder_.add_node(node.op, attrs, node.operands, results, node.where);
  }

  Types infer(const Graph::Node& node, std::span<const Type* const> operands,
              const Attrs& attrs) const {
    try {
      Types results = internal::check_call(node.op, operands, attrs);
      if (results.size() != node.results) refuse("{} has other results there", node.op.name());
      return results;
    } catch (const Error& error) {
      refuse("{}: {}", node.op.name(), error.what());
    }
  }

  // Checks that the type agrees with the formulas. A size without a formula follows from the type
  // rule.
  void check_type(GraphValue value, const Type* found) {
    const Type* first = first_.type(value);
    bool fits = (found == nullptr) == (first == nullptr);
    if (fits && found != nullptr) {
      fits = found->dtype() == first->dtype() && found->rank() == first->rank() &&
             found->device() == first->device();
    }
    const auto has_spot = [&] {
      return next_type_ < parts_.types.size() && parts_.types[next_type_].value == value;
    };
    for (int axis = 0; fits && found != nullptr && axis < found->rank(); ++axis) {
      const int64_t size = found->shape()[axis];
      if (!has_spot() || parts_.types[next_type_].axis != axis) {
        fits = size == first->shape()[axis];
        continue;
      }
      const auto& formulas = parts_.types[next_type_++].size.formulas;
      const auto gives = [&](const auto& f) { return f.at(sizes_) == size; };
      const auto rounds_to = [&](const auto& f) { return f.rounds_to(size, sizes_); };
      const bool is_exact = formulas.empty() || std::ranges::any_of(formulas, gives);
      shared_.has_rounded_size |= !is_exact;
      fits = is_exact || std::ranges::any_of(formulas, rounds_to);
      at_least_two(size);
    }
    if (!fits) {
      refuse("value %{} would be {}, which differs from its formula", value,
             internal::type_text(found));
    }
  }

  Attrs attrs_of(std::size_t i, const Graph::Node& node, bool& differs) {
    const auto is_here = [&](const auto& spots, std::size_t next) {
      return next < spots.size() && spots[next].node == i;
    };
    if (!is_here(parts_.attrs, next_attr_) && !is_here(parts_.inner, next_inner_))
      return node.attrs;
    differs = true;
    std::vector<AttrValue> values(node.attrs.values().begin(), node.attrs.values().end());
    for (; is_here(parts_.attrs, next_attr_); ++next_attr_) {
      const SymbolicParts::AttrSpot& spot = parts_.attrs[next_attr_];
      if (const auto* whole = std::get_if<SizeNumber>(&spot.number)) {
        put(values[spot.attr], spot.element, decided<int64_t>(*whole));
      } else {
        put(values[spot.attr], spot.element, real(std::get<RealNumber>(spot.number)));
      }
    }
    for (; is_here(parts_.inner, next_inner_); ++next_inner_) {
      const SymbolicParts::InnerSpot& spot = parts_.inner[next_inner_];
      GraphRef& made = shared_.inner[spot.inner.get()];
      if (!made) made = Instantiation(*spot.inner, sizes_, shared_).run();
      using Object = internal::RefPtr<const AttrObject>;
      put(values[spot.attr], spot.element, Object(made.get()));
    }
    return Attrs(node.attrs.defs(), std::move(values));
  }
  template <class T>
  static void put(AttrValue& value, std::size_t element, T number) {
    if (auto* list = std::get_if<std::vector<T>>(&value)) {
      (*list)[element] = number;
    } else {
      value = number;
    }
  }

  const SymbolicParts& parts_;
  const Graph& first_;
  std::span<const int64_t> sizes_;
  Instantiated& shared_;
  GraphBuilder builder_;
  std::size_t next_type_ = 0, next_constant_ = 0, next_attr_ = 0, next_inner_ = 0;
};

// The axes of inputs that differ. Axes that are equal in each graph are one size.
std::vector<SymbolicGraph::Size> find_sizes(std::span<const GraphRef> graphs) {
  std::vector<SymbolicGraph::Size> out;
  const auto inputs = graphs.front()->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (int axis = 0; axis < inputs[i].type->rank(); ++axis) {
      std::vector<int64_t> seen;
      for (const GraphRef& graph : graphs) {
        const bool has_it = i < graph->inputs().size() && axis < graph->inputs()[i].type->rank();
        seen.push_back(has_it ? graph->inputs()[i].type->shape()[axis] : -1);
      }
      if (std::ranges::all_of(seen, [&](int64_t s) { return s == seen.front(); })) continue;
      auto size = std::ranges::find(out, seen, &SymbolicGraph::Size::seen);
      if (size == out.end()) {
        const std::size_t k = out.size();
        size =
            out.insert(size, {k < internal::kMostSizes ? kSizeNames[k] : "", {}, std::move(seen)});
      }
      size->axes.emplace_back(i, axis);
    }
  }
  return out;
}

SizePoints points_of(std::span<const SymbolicGraph::Size> sizes) {
  SizePoints out(sizes.front().seen.size());
  for (const SymbolicGraph::Size& size : sizes) {
    for (std::size_t k = 0; k < out.size(); ++k) out[k].push_back(size.seen[k]);
  }
  return out;
}

std::string line_text(CallSite where) {
  return where.known() ? fmt::format("  # {}:{}", where.file, where.line) : "";
}

// The first read of host code that differed between the traces.
std::string read_difference(std::span<const std::vector<internal::SizeRead>> reads) {
  for (const std::vector<internal::SizeRead>& other : reads) {
    const std::vector<internal::SizeRead>& first = reads.front();
    for (std::size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
      if (first[i].size == other[i].size) continue;
      return fmt::format("host code looks at a size, which is {} and {}{}", first[i].size,
                         other[i].size, line_text(first[i].where));
    }
    const bool is_full = first.size() >= internal::SizeReads::kMost;
    if (first.size() != other.size() || is_full) {
      const auto& longer = first.size() > other.size() ? first : other;
      return "host code looks at sizes, not the same each time" + line_text(longer.back().where);
    }
  }
  return "";
}

}  // namespace

SymbolicGraph::SymbolicGraph(std::unique_ptr<const internal::SymbolicParts> parts)
    : parts_(std::move(parts)) {}
SymbolicGraph::~SymbolicGraph() = default;

SymbolicFound SymbolicGraph::of(std::span<const GraphRef> graphs,
                                std::span<const std::vector<internal::SizeRead>> sizes_read) {
  ETUDE_CHECK(graphs.size() >= 2, "a symbolic graph of {} graphs", graphs.size());
  auto parts = std::make_unique<SymbolicParts>();
  parts->graphs.assign(graphs.begin(), graphs.end());
  parts->sizes = find_sizes(graphs);
  if (parts->sizes.empty()) return {{}, "the inputs have the same types"};
  if (parts->sizes.size() > internal::kMostSizes) {
    return {
        {},
        fmt::format("{} sizes differ, more than {}", parts->sizes.size(), internal::kMostSizes)};
  }
  std::string difference = read_difference(sizes_read);
  if (difference.empty()) difference = internal::compare_graphs(*parts, points_of(parts->sizes));
  if (!difference.empty()) return {{}, std::move(difference)};
  return {internal::make_ref<SymbolicGraph>(std::move(parts)), ""};
}

std::span<const SymbolicGraph::Size> SymbolicGraph::sizes() const noexcept { return parts_->sizes; }
std::span<const GraphRef> SymbolicGraph::graphs() const noexcept { return parts_->graphs; }

bool SymbolicGraph::may_take(std::size_t i, const Type* type) const {
  const Type* first = parts_->first().inputs()[i].type;
  if (type == nullptr || type->dtype() != first->dtype() || type->rank() != first->rank() ||
      type->device() != first->device()) {
    return false;
  }
  for (int axis = 0; axis < type->rank(); ++axis) {
    const std::pair<std::size_t, int> place(i, axis);
    const bool is_named = std::ranges::any_of(parts_->sizes, [&](const Size& size) {
      return std::ranges::find(size.axes, place) != size.axes.end();
    });
    if (!is_named && type->shape()[axis] != first->shape()[axis]) return false;
  }
  return true;
}

std::vector<int64_t> SymbolicGraph::sizes_of(std::span<const Type* const> inputs) const {
  if (inputs.size() != parts_->first().inputs().size()) return {};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!may_take(i, inputs[i])) return {};
  }
  std::vector<int64_t> out;
  for (const Size& size : parts_->sizes) {
    const auto [first_input, first_axis] = size.axes.front();
    out.push_back(inputs[first_input]->shape()[first_axis]);
    for (const auto& [input, axis] : size.axes) {
      if (inputs[input]->shape()[axis] != out.back()) return {};
    }
  }
  return out;
}

GraphAtSizes SymbolicGraph::at(std::span<const int64_t> sizes) const {
  ETUDE_REQUIRE(sizes.size() == parts_->sizes.size(), "a symbolic graph of {} sizes was given {}",
                parts_->sizes.size(), sizes.size());
  const std::vector<int64_t> key(sizes.begin(), sizes.end());
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(made_, key, [](const auto& made) { return made.first; });
    if (known != made_.end()) return {known->second, ""};
  }
  for (const int64_t size : sizes) {
    if (size < kLeastSize) return {{}, fmt::format("size {} may broadcast or is 0", size)};
  }
  GraphAtSizes out;
  try {
    Instantiated shared{.points = points_of(parts_->sizes), .inner = {}};
    out.graph = Instantiation(*parts_, sizes, shared).run();
    if (shared.has_rounded_size && shared.has_split_unit)
      refuse("a size in it is rounded there, and a number may be 1 over it");
  } catch (const Refusal& refusal) {
    return {{}, refusal.text};
  } catch (const Error& error) {  // a size beyond the limits of a type
    return {{}, error.what()};
  }
#ifdef ETUDE_ASSERTIONS
  verify(*out.graph);
#endif
  const std::lock_guard lock(mutex_);
  if (made_.size() >= kMostKept) made_.erase(made_.begin());
  made_.emplace_back(key, out.graph);
  return out;
}

GraphRef SymbolicGraph::graph_for(std::span<const Tensor> inputs) const {
  const Graph& first = parts_->first();
  ETUDE_REQUIRE(inputs.size() == first.inputs().size(),
                "graph '{}' has {} inputs, but {} were given", first.name(), first.inputs().size(),
                inputs.size());
  Types types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(inputs[i].has_value() ? inputs[i].type() : nullptr);
    ETUDE_REQUIRE(may_take(i, types.back()), "input '{}' of graph '{}' is {}, but {} was given",
                  first.inputs()[i].name, first.name(), type_text(static_cast<GraphValue>(i)),
                  internal::type_text(types.back()));
  }
  const std::vector<int64_t> sizes = sizes_of(types);
  ETUDE_REQUIRE(!sizes.empty(), "the inputs of graph '{}' differ in sizes that are one in it: {}",
                first.name(), to_string());
  GraphAtSizes made = at(sizes);
  ETUDE_REQUIRE(made.graph, "graph '{}' does not serve the sizes [{}]: {}. Trace it at these sizes",
                first.name(), fmt::join(sizes, ", "), made.refusal);
  return std::move(made.graph);
}

namespace {

// The values of a symbolic graph's numbers in the graphs that it was found from.
class SeenNumbers {
 public:
  explicit SeenNumbers(std::span<const SymbolicGraph::Size> sizes) : points_(points_of(sizes)) {}

  void add(const SymbolicParts& parts) {
    for (const auto& spot : parts.types) {
      if (!spot.size.formulas.empty()) values_.insert(seen(spot.size));
    }
    for (const auto& spot : parts.attrs) values_.insert(seen_in(spot.number));
    for (const auto& spot : parts.constants) values_.insert(seen_in(spot.number));
    for (const auto& spot : parts.inner) add(*spot.inner);
  }
  bool has_all_of(const SymbolicParts& parts) const {
    const auto has = [this](const auto& spot) { return values_.contains(seen_in(spot.number)); };
    return std::ranges::all_of(parts.attrs, has) && std::ranges::all_of(parts.constants, has) &&
           std::ranges::all_of(parts.inner, [this](const SymbolicParts::InnerSpot& spot) {
             return has_all_of(*spot.inner);
           });
  }

 private:
  using Values = std::vector<std::variant<int64_t, double>>;

  template <class Number>
  Values seen(const Number& number) const {
    Values out;
    for (const auto& point : points_) out.emplace_back(number.formulas.front().at(point).value());
    return out;
  }
  Values seen_in(const std::variant<SizeNumber, RealNumber>& number) const {
    return std::visit([this](const auto& n) { return seen(n); }, number);
  }

  SizePoints points_;
  std::set<Values> values_;
};

}  // namespace

bool SymbolicGraph::takes_numbers_from(const SymbolicGraph& other) const {
  const auto same_seen = [](const Size& a, const Size& b) { return a.seen == b.seen; };
  if (!std::ranges::equal(sizes(), other.sizes(), same_seen)) return false;
  SeenNumbers known(sizes());
  known.add(*other.parts_);
  return known.has_all_of(*parts_);
}

namespace {

class SymbolicPrinter {
 public:
  SymbolicPrinter(const SymbolicParts& parts, std::span<const std::string> names)
      : parts_(parts), names_(names) {}

  std::string type(GraphValue value) const {
    const Type* of = parts_.first().type(value);
    if (of == nullptr) return internal::type_text(of);
    std::vector<std::string> sizes;
    for (const int64_t size : of->shape()) sizes.push_back(std::to_string(size));
    // The spots are in order of their values.
    for (const SymbolicParts::TypeSpot& spot :
         std::ranges::equal_range(parts_.types, value, {}, &SymbolicParts::TypeSpot::value)) {
      const auto& formulas = spot.size.formulas;
      sizes[static_cast<std::size_t>(spot.axis)] =
          formulas.empty() ? "?" : formulas.front().to_string(names_);
    }
    return fmt::format("{}[{}]", name(of->dtype()), fmt::join(sizes, ","));
  }

  std::string numbers() const {
    const std::vector<std::string> values = internal::value_names(parts_.first());
    std::string text;
    for (std::size_t i = 0; i < parts_.types.size(); ++i) {
      const GraphValue value = parts_.types[i].value;
      if (i > 0 && parts_.types[i - 1].value == value) continue;
      text += fmt::format("  {}: {}\n", values[value], type(value));
    }
    for (const SymbolicParts::ConstantSpot& spot : parts_.constants) {
      text += fmt::format("  {} = constant: element {} is {}\n",
                          values[parts_.first().first_constant() + spot.constant], spot.element,
                          formula(spot.number));
    }
    for (const SymbolicParts::AttrSpot& spot : parts_.attrs) {
      const Graph::Node node = parts_.first().node(spot.node);
      text += fmt::format("  {} = {}: {}[{}] is {}\n", values[node.first_result],
                          internal::op_text(node.op), node.attrs.defs()[spot.attr].name,
                          spot.element, formula(spot.number));
    }
    return text + inner();
  }

 private:
  std::string formula(const std::variant<SizeNumber, RealNumber>& number) const {
    return std::visit([&](const auto& n) { return n.formulas.front().to_string(names_); }, number);
  }
  std::string inner() const {
    std::string text;
    std::vector<const SymbolicParts*> seen;
    for (const SymbolicParts::InnerSpot& spot : parts_.inner) {
      if (std::ranges::find(seen, spot.inner.get()) != seen.end()) continue;
      seen.push_back(spot.inner.get());
      text += fmt::format("in {}:\n{}", spot.inner->first().to_string(),
                          SymbolicPrinter(*spot.inner, names_).numbers());
    }
    return text;
  }

  const SymbolicParts& parts_;
  std::span<const std::string> names_;
};

std::vector<std::string> names_of(const SymbolicParts& parts) {
  std::vector<std::string> names;
  for (const SymbolicGraph::Size& size : parts.sizes) names.push_back(size.name);
  return names;
}

}  // namespace

std::string SymbolicGraph::type_text(GraphValue value) const {
  const std::vector<std::string> names = names_of(*parts_);
  return SymbolicPrinter(*parts_, names).type(value);
}

std::string SymbolicGraph::to_string() const {
  std::vector<std::string> given;
  for (const Size& size : parts_->sizes) {
    std::vector<std::string> axes;
    for (const auto& [input, axis] : size.axes) {
      axes.push_back(fmt::format("axis {} of {}", axis, parts_->first().inputs()[input].name));
    }
    given.push_back(fmt::format("{} is {}", size.name, fmt::join(axes, ", ")));
  }
  const std::vector<std::string> names = names_of(*parts_);
  return fmt::format("sizes of {}: {}\n{}", parts_->first().name(), fmt::join(given, "; "),
                     SymbolicPrinter(*parts_, names).numbers());
}

}  // namespace etude
