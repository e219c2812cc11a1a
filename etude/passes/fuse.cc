// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/fuse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include "etude/base/scalars/scalar_program.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/text/programs.h"
#include "etude/passes/decisions.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

using scalar::Fn;
using scalar::Program;

constexpr std::size_t kMostOperands = 6;  // of one kernel (kernels/cpu/elementwise/elementwise.h)
constexpr int64_t kSmallBytes = 1 << 16;  // smaller waiting operands are free
constexpr std::size_t kNear = 8;          // nodes between which operands may wait
constexpr uint32_t kNone = ~uint32_t{0};

// The program that a node computes per element; null: the node cannot be fused.
const Program* program_of(const Graph::Node& node) {
  const OpDef& def = node.op.def();
  const Program* program = nullptr;
  if (&node.op == &program_op()) {
    program = std::get<const ScalarDef*>(node.attrs.value("program"))->program;
  } else if (def.kind == Kind::kElementwise && def.kernels.cpu == nullptr) {
    program = def.scalar.program;
  }
  if (program == nullptr || !scalar::runs_on_tensors(*program)) return nullptr;
  const Fn last = program->nodes[static_cast<std::size_t>(program->size - 1)].fn;
  return scalar::info(last).arity == 0 ? nullptr : program;
}

// The numeric attributes of a node, in the form that its kernel takes.
std::vector<double> params_of(const Graph::Node& node) {
  if (&node.op == &program_op()) return node.attrs.reals("params");
  std::vector<double> out;
  for (const AttrValue& value : node.attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) out.push_back(*number);
  }
  return out;
}

bool is_number(const Graph& graph, GraphValue v) {
  const Type* const type = graph.type(v);
  return graph.is_constant(v) && type->rank() == 0 && type->dtype() == kFloat32 &&
         type->device().is_home();
}

// The joined program of several nodes: each replaces the operand that it computed. Values that no
// earlier node computed are operands, or parameters if they are numbers.
class JoinedProgram {
 public:
  explicit JoinedProgram(const Graph& graph) : graph_(graph) {}

  void add(const Graph::Node& node, const Program& program) {
    const std::vector<double> params = params_of(node);
    std::array<uint16_t, scalar::kMaxNodes> place{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(program.size); ++k) {
      scalar::Node each = program.nodes[k];
      if (each.fn == Fn::kOperand) {
        place[k] = value(node.operands[each.args[0]]);
      } else if (each.fn == Fn::kParam) {
        place[k] = param(params[each.args[0]]);
      } else {
        const auto arity = static_cast<std::size_t>(scalar::info(each.fn).arity);
        for (std::size_t a = 0; a < arity; ++a) each.args[a] = place[each.args[a]];
        place[k] = builder_.add(each);
      }
      result_ = place[k];
    }
    known_[node.first_result] = result_;
  }

  // The program of the last added node.
  Program program() const {
    return scalar::finish(builder_, result_, static_cast<int>(operands_.size()),
                          static_cast<int>(params_.size()), true);
  }
  const std::vector<GraphValue>& operands() const { return operands_; }
  const std::vector<double>& params() const { return params_; }

 private:
  uint16_t param(double number) {
    const auto bits = std::bit_cast<uint64_t>(number);
    const auto same = [bits](double p) { return std::bit_cast<uint64_t>(p) == bits; };
    auto at = std::ranges::find_if(params_, same);
    if (at == params_.end()) at = params_.insert(at, number);
    return builder_.add({Fn::kParam, {static_cast<uint16_t>(at - params_.begin())}, 0});
  }

  uint16_t value(GraphValue v) {
    const auto [at, is_new] = known_.try_emplace(v, uint16_t{0});
    if (!is_new) return at->second;
    if (is_number(graph_, v)) {
      float number;
      const Tensor& constant = graph_.constants()[v - graph_.first_constant()];
      std::memcpy(&number, host_elements(constant), sizeof number);
      return at->second = param(number);
    }
    operands_.push_back(v);
    const auto place = static_cast<uint16_t>(operands_.size() - 1);
    return at->second = builder_.add({Fn::kOperand, {place}, 0});
  }

  const Graph& graph_;
  std::array<scalar::Node, scalar::kMaxRawNodes> nodes_;
  scalar::Builder builder_{nodes_.data(), nodes_.size()};
  std::map<GraphValue, uint16_t> known_;
  std::vector<GraphValue> operands_;
  std::vector<double> params_;
  uint16_t result_ = 0;
};

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph),
        programs_(graph.size(), nullptr),
        group_(graph.size(), kNone),
        maker_(graph.value_count(), kNone),
        readers_(graph.value_count(), 0),
        last_reader_(graph.value_count(), 0) {
    for (std::size_t i = 0; i < graph.size(); ++i) look_at(i);
    // An output has an outside reader that never ends.
    for (const GraphValue v : graph.outputs()) {
      if (v == kNoValue) continue;
      ++readers_[v];
      last_reader_[v] = graph.size();
    }
  }

  GraphRef run() {
    for (std::size_t i = graph_.size(); i-- > 0;) {
      if (programs_[i] != nullptr && group_[i] == kNone) gather(i);
    }
    if (calls_.empty()) return GraphRef(&graph_);
    GraphCopy copy(graph_);
    auto fused = make_ref<FusedCalls>();
    std::size_t made = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const auto call = calls_.find(i);
      if (call != calls_.end()) {
        fused->by_node.emplace(made++, members_of(i));
        emit(copy, graph_.node(i), call->second);
      } else if (group_[i] == kNone) {
        ++made;
        copy.copy(graph_.node(i));
      }
    }
    GraphRef out = copy.finish();
    if (out->size() == made) FusedCalls::keep(*out, fused);
    return out;
  }

 private:
  // A chain of nodes while it grows: the last node, the nodes that joined it, and the operands that
  // none of them computes.
  struct Run {
    std::size_t root = 0;
    std::vector<std::size_t> nodes;    // the root first, each after its readers
    std::vector<GraphValue> operands;  // no numbers
    std::vector<GraphValue> numbers;   // constants of one element
    std::map<GraphValue, int> reads;   // how many operands of the run's nodes each value is
    std::size_t functions = 0;         // nodes of programs, but for operands and parameters
    std::size_t params = 0;
  };
  // The call that replaces the last node of a chain.
  struct Call {
    const ScalarDef* program = nullptr;
    std::vector<double> params;
    std::vector<GraphValue> operands;
  };

  void look_at(std::size_t i) {
    const Graph::Node node = graph_.node(i);
    for (const GraphValue v : node.operands) {
      if (v == kNoValue) continue;
      ++readers_[v];
      last_reader_[v] = i;
    }
    for (uint32_t r = 0; r < node.results; ++r)
      maker_[node.first_result + r] = static_cast<uint32_t>(i);
    const Program* program = program_of(node);
    if (program != nullptr && node.results == 1 && is_float(node, *program)) programs_[i] = program;
  }

  // float32 on the host, except bools: the operands that program kernels accept.
  bool is_float(const Graph::Node& node, const Program& program) const {
    const auto is = [this](GraphValue v, DType dtype) {
      return v != kNoValue && graph_.type(v)->dtype() == dtype &&
             graph_.type(v)->device() == Device();
    };
    if (node.operands.size() != static_cast<std::size_t>(program.operands)) return false;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const bool is_bool = ((program.bools >> i) & 1) != 0;
      if (!is(node.operands[i], is_bool ? kBool : kFloat32)) return false;
    }
    return is(node.first_result, program.is_bool ? kBool : kFloat32);
  }

  void add(Run& run, std::size_t i) const {
    const Graph::Node node = graph_.node(i);
    const Program& program = *programs_[i];
    run.nodes.push_back(i);
    for (const GraphValue v : node.operands) {
      ++run.reads[v];
      auto& list = is_number(graph_, v) ? run.numbers : run.operands;
      if (std::ranges::find(list, v) == list.end()) list.push_back(v);
    }
    for (int k = 0; k < program.size; ++k) {
      const Fn fn = program.nodes[static_cast<std::size_t>(k)].fn;
      if (fn != Fn::kOperand && fn != Fn::kParam) ++run.functions;
    }
    run.params += static_cast<std::size_t>(program.params);
    const auto self = std::ranges::find(run.operands, node.first_result);
    if (self != run.operands.end()) run.operands.erase(self);
  }

  static bool fits(const Run& run) {
    const std::size_t nodes = run.functions + run.operands.size() + run.numbers.size() + run.params;
    return run.operands.size() <= kMostOperands &&
           nodes <= static_cast<std::size_t>(scalar::kMaxNodes);
  }

  std::vector<FusedCall> members_of(std::size_t root) const {
    std::vector<FusedCall> out;
    for (std::size_t i = 0; i <= root; ++i) {
      if (group_[i] != root) continue;
      const Graph::Node node = graph_.node(i);
      out.push_back({std::string(node.op.name()), node.where});
    }
    return out;
  }

  // Whether the readers of this operand of the chain allow the node that makes it to join.
  bool may_join(const Run& run, GraphValue v) const {
    const uint32_t maker = maker_[v];
    if (maker == kNone || programs_[maker] == nullptr || group_[maker] != kNone) return false;
    const GraphValue result = graph_.node(run.root).first_result;
    return readers_[v] == run.reads.at(v) &&
           graph_.type(v)->shape() == graph_.type(result)->shape();
  }

  void report(const Run& run, GraphValue v, std::string_view why) const {
    if (!wants_decisions()) return;
    report_decision("fuse_elementwise", "{} stays apart from {}: {}",
                    call_text(graph_.node(maker_[v])), call_text(graph_.node(run.root)), why);
  }
  // Reports why element-wise calls that make operands of this finished chain did not join.
  void report_apart(const Run& run) const {
    const GraphValue result = graph_.node(run.root).first_result;
    if (run.nodes.size() > 1) {
      report_decision("fuse_elementwise",
                      "{} calls up to {} are one sweep over {}: {} functions, {} operands",
                      run.nodes.size(), call_text(graph_.node(run.root)),
                      graph_.type(result)->to_string(), run.functions, run.operands.size());
    }
    for (const GraphValue v : run.operands) {
      if (maker_[v] == kNone || programs_[maker_[v]] == nullptr || group_[maker_[v]] == run.root) {
        continue;
      }
      if (graph_.type(v)->shape() != graph_.type(result)->shape()) {
        report(run, v,
               "its shape is another one, so that each element would be computed many times");
      } else if (readers_[v] != run.reads.at(v)) {
        report(run, v,
               fmt::format("{} others read its result, which must be in memory for them",
                           readers_[v] - run.reads.at(v)));
      }
    }
  }

  // Whether operands of the node that wait for the chain because of it would occupy more memory
  // than its result.
  bool would_keep_more(const Run& run, std::size_t i) const {
    if (run.root - i <= kNear) return false;
    const Graph::Node node = graph_.node(i);
    int64_t more = -graph_.type(node.first_result)->bytes();
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      const GraphValue v = node.operands[k];
      const auto before = node.operands.first(k);
      if (std::ranges::find(before, v) != before.end()) continue;
      if (maker_[v] != kNone && last_reader_[v] < run.root) more += graph_.type(v)->bytes();
    }
    return more > kSmallBytes;
  }

  void gather(std::size_t root) {
    Run run;
    run.root = root;
    add(run, root);
    std::vector<GraphValue> refused;
    for (;;) {
      // The latest first: all its possible readers have been considered.
      GraphValue next = kNoValue;
      for (const GraphValue v : run.operands) {
        const bool is_refused = std::ranges::find(refused, v) != refused.end();
        if (!is_refused && may_join(run, v) && (next == kNoValue || maker_[v] > maker_[next]))
          next = v;
      }
      if (next == kNoValue) break;
      Run larger = run;
      add(larger, maker_[next]);
      const bool has_room = fits(larger);
      if (has_room && !would_keep_more(run, maker_[next])) {
        run = std::move(larger);
        continue;
      }
      refused.push_back(next);
      report(run, next,
             has_room ? "its operands would hold more memory until then than its result does"
                      : "together they have more operands or functions than one kernel takes");
    }
    if (run.nodes.size() > 1) keep(run);
    if (wants_decisions()) report_apart(run);
  }

  void keep(const Run& run) {
    Call call = call_of(run);
    if (call.program == nullptr) return;
    for (const std::size_t i : run.nodes) group_[i] = static_cast<uint32_t>(run.root);
    calls_.emplace(run.root, std::move(call));
  }

  // The joined program of all nodes. None if no kernel would serve it: a kernel takes the dtype of
  // its result from an operand. Also none if a record has a program with this text that reads more.
  Call call_of(const Run& run) const {
    std::vector<std::size_t> members = run.nodes;
    std::ranges::sort(members);
    JoinedProgram joined(graph_);
    for (const std::size_t i : members) joined.add(graph_.node(i), *programs_[i]);
    const Program whole = joined.program();
    Call call{find_program(whole), joined.params(), joined.operands()};
    const bool has_float = std::ranges::any_of(
        call.operands, [this](GraphValue v) { return graph_.type(v)->dtype() == kFloat32; });
    if (call.program == nullptr) return call;
    const Program& found = *call.program->program;
    const bool is_it = found.operands == whole.operands && found.params <= whole.params;
    if (!has_float || !is_it) call.program = nullptr;
    return call;
  }

  static void emit(GraphCopy& copy, const Graph::Node& root, const Call& call) {
    std::vector<GraphCopy::Draft> operands;
    for (const GraphValue v : call.operands) operands.push_back(copy.at(v));
    copy.build().set_frame(root.frame);
    const Attrs attrs = program_attrs(*call.program, call.params);
    copy.set(root.first_result,
             copy.build().add_node(program_op(), attrs, operands,
                                   {copy.graph().type(root.first_result)}, root.where));
  }

  const Graph& graph_;
  std::vector<const Program*> programs_;  // by node; null: not to be fused
  std::vector<uint32_t> group_;           // by node: the last node of the run that it is of
  std::vector<uint32_t> maker_;           // by value
  std::vector<int> readers_;              // by value: operands that it is, and outputs
  std::vector<std::size_t> last_reader_;  // by value
  std::map<std::size_t, Call> calls_;     // by the last node of a run
};

}  // namespace

GraphRef fuse_elementwise(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace etude::internal
