// SPDX-License-Identifier: Apache-2.0
// GraphBuilder: builds a graph node by node. Used by tracing, passes and the parser.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Inputs, constants and nodes may be added in any order. Before finish() assigns the final numbers,
// a Draft number identifies a value.
// threads: confined to one thread.
class GraphBuilder {
 public:
  using Draft = uint32_t;
  static constexpr Draft kNoDraft = ~Draft{0};

  explicit GraphBuilder(std::string name);
  GraphBuilder(GraphBuilder&& other) noexcept;
  GraphBuilder& operator=(GraphBuilder&& other) noexcept;
  ~GraphBuilder();
  // Merges equal nodes that are added after this call. Nodes with effects are never merged. Must
  // not be used for a graph that may be differentiated. The cotangents of two merged nodes would be
  // summed before the rule of the node instead of after the rule. The sum would round differently.
  void merge_equal_nodes() { merges_ = true; }

  Draft add_input(std::string name, const Type* type, InputRole role = InputRole::kArgument);
  // `value` must have elements: no abstract tensor, and no sparse tensor.
  Draft add_constant(Tensor value);
  // The results of a node have consecutive numbers.
  struct Results {
    Draft first;
    uint32_t count;
  };
  // Adds a node. The type rule of the op determines the result types.
  // throws: the errors of the type rule; kUnimplemented if a result size depends on data.
  Results append(const Op& op, const Attrs& attrs, std::span<const Draft> operands,
                 CallSite where = {});
  // The same, but returns the first result of the node.
  Draft add_node(const Op& op, const Attrs& attrs, std::span<const Draft> operands,
                 CallSite where = {}) {
    return append(op, attrs, operands, where).first;
  }
  // The same for known result types.
  Draft add_node(const Op& op, const Attrs& attrs, std::span<const Draft> operands,
                 const Types& results, CallSite where);

  const Type* type(Draft value) const { return values_[value].type; }
  std::size_t node_count() const { return nodes_.size(); }
  // The number of nodes with effects.
  std::size_t effect_count() const { return effects_; }
  // The user's line of the call that produced a value.
  CallSite where(Draft value) const { return values_[value].where; }
  // The call that produced a value. `op` is null for an input or a constant. Valid until the
  // builder changes.
  struct Made {
    const Op* op = nullptr;
    const Attrs* attrs = nullptr;
    std::span<const Draft> operands = {};
  };
  Made maker(Draft value) const;
  // The tensor of a constant; null for any other value.
  const Tensor* constant(Draft value) const;
  // Removes an unused input.
  void drop_input(Draft input);
  // Replaces an input by a constant, for an input whose value turned out to be fixed.
  void make_constant(Draft input, Tensor value);
  // Copies a file name into the graph, and returns a pointer to the copy for a CallSite. The copy
  // lives as long as the graph.
  const char* keep_text(std::string_view text);
  // Keeps the file names in the lines of `graph` alive. Used when nodes of `graph` are copied.
  void keep_texts_of(const Graph& graph);
  // Adds a frame and returns its index. After set_frame(), new nodes belong to the given frame.
  uint32_t add_frame(Graph::Frame frame);
  void set_frame(uint32_t frame) { frame_ = frame; }

  // Returns the graph. Inputs are sorted by role (arguments, keys, Variables, captures), then by
  // the order of add_input(). Unused nodes are removed unless `keep_all` is true or the node has
  // effects (graph.h). Unused constants are always removed. The builder is empty afterwards.
  GraphRef finish(std::span<const Draft> outputs, bool keep_all = false);

 private:
  enum class Origin : uint8_t { kInput, kConstant, kResult };
  struct Value {
    const Type* type = nullptr;
    Origin origin = Origin::kResult;
    uint32_t index = 0;  // of the input, the constant, or the node
    CallSite where = {};
  };
  struct Node {
    const Op* op;
    Attrs attrs;
    CallSite where;
    uint32_t first_operand;
    uint32_t operands;
    Draft first_result;
    uint32_t results;
    uint32_t frame;
    bool has_effects;
  };

  std::span<const Draft> operands_of(const Node& node) const {
    return {operands_.data() + node.first_operand, node.operands};
  }
  // Returns an equal node, or null.
  const Node* find(uint64_t hash, const Op& op, const Attrs& attrs,
                   std::span<const Draft> operands) const;
  std::vector<bool> find_needed(std::span<const Draft> outputs, bool keep_all) const;

  std::string name_;
  bool merges_ = false;
  std::size_t effects_ = 0;
  std::vector<Graph::Input> inputs_;
  std::vector<Tensor> constants_;
  std::vector<Node> nodes_;
  std::vector<Draft> operands_;
  std::vector<Value> values_;
  std::unordered_multimap<uint64_t, uint32_t> known_;  // nodes by hash
  uint32_t frame_ = Graph::kNoFrame;
  std::vector<Graph::Frame> frames_;
  std::shared_ptr<Graph::Texts> texts_;  // for keep_text()
  std::vector<std::shared_ptr<const Graph::Texts>> other_texts_;
};

}  // namespace etude
