// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/rewrite.h"

#include <optional>
#include <unordered_map>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/op/registry.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/switches.h"

namespace etude::internal {
namespace {

using Draft = GraphBuilder::Draft;

// A rule with resolved names.
struct Rule {
  const RewriteDef* def;
  const Op* inner;  // null: any
  const Op* to;     // null: the source itself
};

// The enabled rules of records. Each record is looked up once.
class Rules {
 public:
  const std::vector<Rule>& of(const Op& op) {
    const auto [at, is_new] = known_.try_emplace(&op);
    if (!is_new) return at->second;
    for (const RewriteDef& def : op.def().rewrites) {
      if (!is_switched_off(def.name)) at->second.push_back({&def, named(def.inner), named(def.to)});
    }
    return at->second;
  }

 private:
  static const Op* named(std::string_view name) {
    return name.empty() ? nullptr : &Registry::global().at(name);
  }
  std::unordered_map<const Op*, std::vector<Rule>> known_;
};

// A call that is not yet a node.
struct Call {
  const Op* op;
  Attrs attrs;
  std::vector<Draft> operands;
};

class Rewriter {
 public:
  explicit Rewriter(const Graph& graph) : copy_(graph) {}

  GraphRef run() {
    bool has_any = false;
    for (std::size_t i = 0; i < copy_.graph().size(); ++i) {
      const Graph::Node node = copy_.graph().node(i);
      if (node.results != 1 || rules_.of(node.op).empty()) {
        copy_.copy(node);
        continue;
      }
      const auto operands = copy_.operands(node);
      Call call{&node.op, node.attrs, {operands.begin(), operands.end()}};
      copy_.build().set_frame(node.frame);
      has_any = rewrite(node, call) || has_any;
    }
    return has_any ? copy_.finish() : GraphRef(&copy_.graph());
  }

 private:
  // Applies rules until none fits; returns whether any was applied. Each rule moves the source
  // closer to the inputs, so this ends.
  bool rewrite(const Graph::Node& node, Call& call) {
    const Type* const result = copy_.graph().type(node.first_result);
    bool is_rewritten = false;
    for (std::size_t i = 0; i < rules_.of(*call.op).size();) {
      const Rule rule = rules_.of(*call.op)[i++];
      const std::optional<Draft> source = source_of(rule, call, result);
      if (!source) continue;
      is_rewritten = true;
      if (rule.to == nullptr) {
        copy_.set(node.first_result, *source);
        return true;
      }
      i = 0;
    }
    const Draft made =
        copy_.build().add_node(*call.op, call.attrs, call.operands, Types{result}, node.where);
    copy_.set(node.first_result, made);
    return is_rewritten;
  }

  // The source, if the rule fits; then `call` becomes the new call.
  std::optional<Draft> source_of(const Rule& rule, Call& call, const Type* result) {
    GraphBuilder& build = copy_.build();
    const RewriteDef& def = *rule.def;
    if (def.source >= call.operands.size()) return std::nullopt;
    Draft source = call.operands[def.source];
    if (source == GraphBuilder::kNoDraft) return std::nullopt;
    const Attrs* inner = nullptr;
    if (rule.inner != nullptr) {
      const GraphBuilder::Made made = build.maker(call.operands[0]);
      if (made.op != rule.inner) return std::nullopt;
      inner = made.attrs;
      source = made.operands[0];
    }
    const Type* const type = build.type(source);
    if (!def.dtypes.contains(type->dtype())) return std::nullopt;
    if (rule.to == nullptr && type != result) return std::nullopt;
    std::vector<const Type*> types;
    std::vector<const Tensor*> constants;
    for (const Draft d : call.operands) {
      const bool is_there = d != GraphBuilder::kNoDraft;
      types.push_back(is_there ? build.type(d) : nullptr);
      constants.push_back(is_there ? build.constant(d) : nullptr);
    }
    const RewriteCall seen{*call.op,  call.attrs, types, call.operands,
                           constants, inner,      type,  result};
    if (def.when != nullptr && !def.when(seen)) return std::nullopt;
    if (rule.to == nullptr) return source;
    call.attrs = def.attrs != nullptr ? def.attrs(seen) : rule.to->default_attrs();
    call.op = rule.to;
    call.operands[0] = source;
    return source;
  }

  GraphCopy copy_;
  Rules rules_;
};

}  // namespace

GraphRef rewrite_calls(const Graph& graph) { return Rewriter(graph).run(); }

}  // namespace etude::internal
