// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/verify.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/graph/check_call.h"
#include "etude/graph/text/names.h"

namespace etude {
namespace {

class Verifier {
 public:
  // Graphs in attributes are appended to `found`.
  Verifier(const Graph& graph, std::vector<const Graph*>& found) : graph_(graph), found_(found) {}

  void run() {
    check_inputs();
    check_constants();
    for (std::size_t i = 0; i < graph_.size(); ++i) check_node(i);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const GraphValue v = graph_.outputs()[i];
      require(v == kNoValue || v < graph_.value_count(),
              [&] { return fmt::format("output {} is value {}, which does not exist", i, v); });
    }
  }

 private:
  template <class Text>
  void require(bool holds, Text&& fact, CallSite where = {}) const {
    if (holds) return;
    Error error(ErrorCode::kInternal, fmt::format("graph '{}': {}", graph_.name(), fact()));
    error.locate(where);
    throw error;
  }
  template <class Text>
  void require_of(std::size_t node, bool holds, Text&& fact) const {
    const Graph::Node at = graph_.node(node);
    const auto text = [&] {
      return fmt::format("node {}, %{} = {}: {}", node, at.first_result, at.op.name(), fact());
    };
    require(holds, text, at.where);
  }

  void check_inputs() const {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Graph::Input& input = graph_.inputs()[i];
      require(!input.name.empty(), [&] { return fmt::format("input {} has no name", i); });
      require(input.type != nullptr && input.type == graph_.type(static_cast<GraphValue>(i)),
              [&] { return fmt::format("input '{}' is no value of its type", input.name); });
      require(input.type->count() != kAny, [&] {
        return fmt::format("input '{}' is {}, of an unknown size", input.name,
                           input.type->to_string());
      });
    }
  }

  void check_constants() const {
    for (GraphValue v = graph_.first_constant(); v < graph_.first_result(); ++v) {
      const Tensor& value = graph_.constants()[v - graph_.first_constant()];
      const bool has_elements =
          value.has_value() && !TensorAccess::is_sparse(value) && !TensorAccess::is_abstract(value);
      require(has_elements, [&] { return fmt::format("constant %{} has no elements", v); });
      require(value.type() == graph_.type(v), [&] {
        return fmt::format("constant %{} is {}, but holds {}", v,
                           internal::type_text(graph_.type(v)), internal::type_text(value.type()));
      });
    }
  }

  void check_attrs(std::size_t i) {
    const Graph::Node node = graph_.node(i);
    const auto& defs = node.op.def().attrs;
    const auto values = node.attrs.values();
    require_of(i, values.size() == defs.size(), [&] {
      return fmt::format("has {} attributes, but its record {}", values.size(), defs.size());
    });
    for (std::size_t a = 0; a < defs.size(); ++a) {
      const bool is_given = values[a].index() != 0;
      const bool may_be_absent = !defs[a].required && defs[a].default_value.index() == 0;
      const bool fits =
          is_given ? values[a].index() == static_cast<std::size_t>(defs[a].kind) : may_be_absent;
      require_of(i, fits, [&] {
        return fmt::format("attribute '{}' is of another kind than its record says", defs[a].name);
      });
      if (!is_given) continue;
      for (const Graph* graph : internal::graphs_in(values[a])) {
        require_of(i, graph != nullptr,
                   [&] { return fmt::format("attribute '{}' is no graph", defs[a].name); });
        found_.push_back(graph);
      }
    }
  }

  void check_node(std::size_t i) {
    const Graph::Node node = graph_.node(i);
    Types operands;
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      const GraphValue v = node.operands[k];
      require_of(i, v == kNoValue || v < node.first_result, [&] {
        return fmt::format(
            "operand {} is value {}, but that is no input, constant or result of an earlier node",
            k, v);
      });
      operands.push_back(v == kNoValue ? nullptr : graph_.type(v));
    }
    check_attrs(i);
    Types results;
    std::size_t count = 0;
    try {
      count = internal::full_count(node.op, operands.size());
      results = internal::check_call(node.op, {operands.data(), operands.size()}, node.attrs);
    } catch (const Error& error) {
      std::string fact = error.what();
      require_of(i, false, [&] { return fact; });
    }
    require_of(i, operands.size() == count, [&] {
      return fmt::format("has {} operands, but its record {}, of which some may be absent",
                         operands.size(), count);
    });
    require_of(i, results.size() == node.results, [&] {
      return fmt::format("has {} results, but its record has {}", node.results, results.size());
    });
    for (uint32_t r = 0; r < node.results; ++r) {
      const Type* type = graph_.type(node.first_result + r);
      require_of(i, type == results[r], [&] {
        return fmt::format("result {} is {}, but its record has {}", r, internal::type_text(type),
                           internal::type_text(results[r]));
      });
    }
  }

  const Graph& graph_;
  std::vector<const Graph*>& found_;
};

}  // namespace

void verify(const Graph& main) {
  std::vector<const Graph*> waiting = {&main};
  std::unordered_set<const Graph*> seen;
  while (!waiting.empty()) {
    const Graph* graph = waiting.back();
    waiting.pop_back();
    if (seen.insert(graph).second) Verifier(*graph, waiting).run();
  }
}

}  // namespace etude
