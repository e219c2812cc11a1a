// SPDX-License-Identifier: Apache-2.0
// Graph: calls of ops on numbered values. Programs can inspect, run, print and save graphs. Passes
// rewrite graphs. Bodies of functions, branches and loops are graphs, and so are their derivatives.
//
// Meaning: the caller sets the inputs. The nodes run in order, each as one call of its op. The
// values of the outputs are the results. A node reads only inputs, constants and results of earlier
// nodes. Every type and every size is known. Equal inputs produce equal outputs: the values of
// Variables and the keys of random draws are inputs, and new values of Variables are outputs. A
// node that no output needs may be removed, and equal nodes may be merged. But nodes with effects
// (has_effects()) keep their order, and each of them runs once. A graph owns its constants and
// refers to nothing else in the program that made it.
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
#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;  // its record is in core/op/op.h
class Graph;
using GraphRef = internal::RefPtr<const Graph>;

// The source of an input when a function calls its graph. Inputs are sorted in this order.
enum class InputRole : uint8_t {
  kArgument,  // passed by the caller
  kKey,       // the key of one random draw, new at each call
  kVariable,  // the value of a Variable when the call begins
  kCapture,   // a tensor from outside that the function used, fixed when the graph was made
};

// The number of a value. Inputs come first, then constants, then the results of the nodes in order.
using GraphValue = uint32_t;
// An absent operand or output.
inline constexpr GraphValue kNoValue = ~GraphValue{0};

// Immutable after GraphBuilder::finish() (builder.h). threads: thread-safe.
class Graph final : public AttrObject {
 public:
  struct Input {
    std::string name;
    const Type* type = nullptr;
    InputRole role = InputRole::kArgument;
    bool operator==(const Input&) const = default;
  };
  // A call of a graph that was inlined: the nodes of the called graph replaced the call.
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
    uint32_t frame;  // index into frames() if the node came from an inlined call, else kNoFrame
  };

  // For messages and for printing. Names need not be unique.
  const std::string& name() const noexcept { return name_; }
  std::span<const Input> inputs() const noexcept;
  std::span<const Tensor> constants() const noexcept;
  std::span<const GraphValue> outputs() const noexcept;
  // The number of nodes.
  std::size_t size() const noexcept { return nodes_.size(); }
  Node node(std::size_t i) const noexcept;

  std::span<const Frame> frames() const noexcept;

  // The number of values, and the type of a value.
  std::size_t value_count() const noexcept { return types_.size(); }
  const Type* type(GraphValue value) const noexcept { return types_[value]; }
  GraphValue first_constant() const noexcept { return static_cast<GraphValue>(inputs_.size()); }
  GraphValue first_result() const noexcept {
    return static_cast<GraphValue>(inputs_.size() + constants_.size());
  }
  bool is_constant(GraphValue value) const noexcept {
    return value >= first_constant() && value < first_result();
  }
  // The types of the outputs; null for an absent output.
  Types output_types() const;
  // Whether a node has an effect outside the graph, itself or through a graph that it runs.
  bool has_effects() const noexcept { return has_effects_; }

  // Equality and hash ignore names, lines and frames. Two graphs are equal if they compute the same
  // results in the same way. Constants are compared bit by bit.
  uint64_t hash() const noexcept override { return hash_; }
  bool same(const AttrObject& other) const noexcept override;
  // "@step": the name, as printed in a call. For the whole text see text/print.h.
  std::string to_string() const override;

  // Returns the object that this graph caches under the key `what`, such as its plan or its
  // derivative. If the key has no object, calls `make` and caches the result, a RefPtr<const T>.
  // The object is destroyed with the graph and must not own the graph.
  // threads: thread-safe. No lock is held while `make` runs, since `make` may warn and so run host
  // code that calls this graph. If several threads call `make` at the same time, all of them
  // receive the object that was cached first.
  template <class T, class Make>
  internal::RefPtr<const T> kept(std::string_view what, Make&& make) const {
    using Object = internal::RefPtr<const internal::RefCounted>;
    Object found = find_kept(what);
    if (!found) found = keep(what, Object(internal::RefPtr<const T>(make())));
    return internal::RefPtr<const T>(static_cast<const T*>(found.get()));
  }

 private:
  friend class GraphBuilder;
  Graph() = default;

  // Parallel arrays with one entry per node. The operands of node i start at first_operand_[i].
  struct NodeData {
    const Op* op = nullptr;
    uint32_t first_operand = 0;
    uint32_t operands = 0;
    GraphValue first_result = 0;
    uint32_t results = 0;
    uint32_t frame = kNoFrame;
  };
  // The file names of source lines, at stable addresses.
  struct Texts;
  internal::RefPtr<const internal::RefCounted> find_kept(std::string_view what) const;
  // Caches `made` under this key, unless the key already has an object. Returns the cached object.
  internal::RefPtr<const internal::RefCounted> keep(
      std::string_view what, internal::RefPtr<const internal::RefCounted> made) const;

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
  std::vector<std::shared_ptr<const Texts>> texts_;  // the file names of node lines
  uint64_t hash_ = 0;
  bool has_effects_ = false;

  mutable std::mutex kept_mutex_;
  mutable std::map<std::string, internal::RefPtr<const internal::RefCounted>, std::less<>> kept_;
};

// Runs the nodes one by one in the innermost context and returns the outputs. This run defines the
// meaning of a graph. Contexts without graph support (tapes, jvp, vmap) run graphs in this way.
// `inputs` has one tensor per input of the graph, with the type of the input.
//
// throws: kInvalidArgument for a wrong number of inputs, and, naming the input, for a wrong type;
// the errors of the ops.
std::vector<Tensor> interpret(const Graph& graph, Operands inputs);
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

namespace internal {
// throws: kInvalidArgument, naming the first mismatch, unless `given` are the types of the inputs.
void require_inputs(const Graph& graph, std::span<const Type* const> given);
// Whether a call has an effect outside the graph, itself or through a graph that it runs. Nodes
// with effects keep their order, and each runs once. Passes do not remove, merge, move or fold
// them.
bool has_effects(const Op& op, const Attrs& attrs);
// Returns the index of the first output at or after `begin` that is the same value as output i.
// `begin` must be at most i.
std::size_t first_output(const Graph& graph, std::size_t i, std::size_t begin = 0);
// Makes the results of a call of the graph share tensors, as results of the separate calls do. Used
// if contexts track values. If two results are one value of the graph, the later result becomes the
// same tensor as the first. A result that is an operand becomes this operand, unless the operand is
// sparse. `results` may hold only the first results of the call.
void share_values(const Graph& graph, Operands operands, std::span<Tensor> results);
}  // namespace internal

}  // namespace etude
