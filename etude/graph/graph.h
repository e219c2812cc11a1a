// SPDX-License-Identifier: Apache-2.0
// Graph: calls of ops on numbered values, as a value that can be looked at, changed by passes, run,
// printed and saved. What bodies of functions, branches and loops and their derivatives are.
//
// What a graph means: its inputs get values; its nodes run, each as one call of its op in the order
// in which they stand; the values of its outputs are the results. A node reads inputs, constants
// and results of earlier nodes only. Every type is known, so is every size. The same values in give
// the same values out: what Variables hold and the keys of random draws are inputs, new values of
// Variables are outputs. A node that no output needs may be left out, and equal ones be one, but
// for those that the world sees (has_effects()): they stay in their order, and each runs once. A
// graph points to nothing in the program that made it but to constants, which it keeps.
//
//   graph step(w: float32[784,10], x: float32[32,784], *key: uint64[2]) -> (float32[32,10])
//     %3 = constant float32[] 0.5
//     %4 = matmul(x, w)                                                   # train.cc:41
//     %5 = multiply(%4, %3)                                               # train.cc:41
//     return %5
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/attrs.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;  // its record is in core/op.h
class Graph;
using GraphRef = internal::RefPtr<const Graph>;

// Where the value of an input comes from when a function calls its graph.
// Inputs stand in this order.
enum class InputRole : uint8_t {
  kArgument,  // the caller gives it
  kKey,       // the key of one random draw, new at each call
  kVariable,  // what a Variable holds when the call begins
  kCapture,   // a tensor from outside that the function used: fixed when the graph was made
};

// Values are numbered: inputs first, then constants, then results of the nodes in order.
using GraphValue = uint32_t;
// An operand or an output that is absent.
inline constexpr GraphValue kNoValue = ~GraphValue{0};

// Immutable once made (GraphBuilder in builder.h makes one). thread-safe.
class Graph final : public AttrObject {
 public:
  struct Input {
    std::string name;
    const Type* type = nullptr;
    InputRole role = InputRole::kArgument;
    bool operator==(const Input&) const = default;
  };
  // A graph whose call was replaced by its nodes.
  struct Frame {
    std::string function;  // its name
    CallSite where;        // of the call
    uint32_t outer;        // the frame of the call, or kNoFrame
  };
  static constexpr uint32_t kNoFrame = ~uint32_t{0};
  // One node, borrowed from its graph.
  struct Node {
    const Op& op;
    const Attrs& attrs;
    CallSite where;
    std::span<const GraphValue> operands;  // kNoValue: absent
    GraphValue first_result;               // results have consecutive numbers
    uint32_t results;
    uint32_t frame;  // of frames(): whose node it was; kNoFrame: of this graph
  };

  // For messages and for printing; need not be unique.
  const std::string& name() const noexcept { return name_; }
  std::span<const Input> inputs() const noexcept;
  std::span<const Tensor> constants() const noexcept;
  std::span<const GraphValue> outputs() const noexcept;
  // The number of nodes.
  std::size_t size() const noexcept { return nodes_.size(); }
  Node node(std::size_t i) const noexcept;

  std::span<const Frame> frames() const noexcept;

  // The number of values, and the type of one of them.
  std::size_t value_count() const noexcept { return types_.size(); }
  const Type* type(GraphValue value) const noexcept { return types_[value]; }
  GraphValue first_constant() const noexcept { return static_cast<GraphValue>(inputs_.size()); }
  GraphValue first_result() const noexcept {
    return static_cast<GraphValue>(inputs_.size() + constants_.size());
  }
  bool is_constant(GraphValue value) const noexcept {
    return value >= first_constant() && value < first_result();
  }
  // Types of the outputs; null for an absent one.
  Types output_types() const;
  // Whether a node, or one of a graph that a node runs, has an effect outside.
  bool has_effects() const noexcept { return has_effects_; }

  // Equality and hash leave out names and lines: two graphs are the same if they compute the same
  // in the same way. Constants compare by their bits.
  uint64_t hash() const noexcept override { return hash_; }
  bool same(const AttrObject& other) const noexcept override;
  // "@step": the name, as it stands in the text of a call. The whole text is in print.h.
  std::string to_string() const override;

  // Something that belongs to this graph and is made once, such as its plan or its derivative:
  // found under the key `what`, or made
  // by `make`, which gives a RefPtr<const T>. It dies with the graph, which it must not hold.
  // thread-safe; `make` runs under a lock of this graph, so it must not ask the same graph for
  // something else.
  template <class T, class Make>
  internal::RefPtr<const T> kept(std::string_view what, Make&& make) const {
    const std::lock_guard lock(kept_mutex_);
    internal::RefPtr<const internal::RefCounted>& place = kept_[std::string(what)];
    if (!place) place = make();
    return internal::RefPtr<const T>(static_cast<const T*>(place.get()));
  }

 private:
  friend class GraphBuilder;
  Graph() = default;

  // Parallel arrays, one entry a node; operands of node i are those from first_operand_[i] on.
  struct NodeData {
    const Op* op = nullptr;
    uint32_t first_operand = 0;
    uint32_t operands = 0;
    GraphValue first_result = 0;
    uint32_t results = 0;
    uint32_t frame = kNoFrame;
  };
  // Texts of lines that were read from text, at places that stay.
  struct Texts;

  std::string name_;
  std::vector<Input> inputs_;
  std::vector<Tensor> constants_;
  std::vector<NodeData> nodes_;
  std::vector<Attrs> attrs_;
  std::vector<CallSite> where_;
  std::vector<GraphValue> operands_;
  std::vector<const Type*> types_;
  std::vector<GraphValue> outputs_;
  std::vector<Frame> frames_;
  std::vector<std::shared_ptr<const Texts>> texts_;  // that lines of nodes point into
  uint64_t hash_ = 0;
  bool has_effects_ = false;

  mutable std::mutex kept_mutex_;
  mutable std::map<std::string, internal::RefPtr<const internal::RefCounted>, std::less<>> kept_;
};

// Runs the nodes one by one in the innermost context and gives the outputs: what a graph means, and
// how contexts that know no graphs (tapes, jvp, vmap) look into one. `inputs` has one tensor per
// input of the graph, of its type.
//
// throws: kInvalidArgument for another number or type of inputs, naming the input; what the ops
// throw.
std::vector<Tensor> interpret(const Graph& graph, Operands inputs);
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

namespace internal {
// throws: kInvalidArgument unless these are the types of the inputs, naming the first that is not.
void require_inputs(const Graph& graph, std::span<const Type* const> given);
// Whether a call has an effect outside, by itself or by a graph that it runs: such nodes stay in
// their order, and each runs once. Passes do not drop, merge or move them, nor run them early.
bool has_effects(const Op& op, const Attrs& attrs);
}  // namespace internal

}  // namespace etude
