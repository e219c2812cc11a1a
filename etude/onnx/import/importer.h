// SPDX-License-Identifier: Apache-2.0
// The importer: runs the nodes of a model while a graph is traced. A node is a call of our public
// functions, made by its row of the table (struct Import). A value whose elements are known when
// the model is loaded, such as a shape, is computed at once: only such values may determine sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "etude/base/call_site.h"
#include "etude/base/check.h"
#include "etude/base/error.h"
#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/onnx/import/file.h"
#include "etude/onnx/import/formulas.h"

namespace etude::onnx::importing {

// A value of the model. An initialiser that is state has elements and a placeholder. A constant
// whose sizes may depend on open sizes has elements, and the calls that make it in the trace.
struct Value {
  Tensor known;                          // its elements; absent if they are computed by the graph
  Tensor traced;                         // its placeholder in the trace; absent for a constant
  std::vector<std::string> inputs = {};  // of the model that it depends on; some of them
  Tensor recorded = {};                  // the constant as calls of the trace; absent for others

  bool has_value() const { return known.has_value() || traced.has_value(); }
  const Tensor& tensor() const {
    return traced.has_value() ? traced : recorded.has_value() ? recorded : known;
  }
};

// The values that nodes of a graph can read by name.
class Scope {
 public:
  explicit Scope(const Scope* outer) : outer_(outer) {}
  const Value* find(const std::string& name) const;
  // False if there is such a value already.
  bool add(const std::string& name, Value value);

 private:
  const Scope* outer_;
  std::unordered_map<std::string, Value> values_;
};

// An error of a node that names it.
class NodeError : public Error {
 public:
  using Error::Error;
};
// An error for a value that has to be known. A loop may run without a graph of its steps instead.
class UnknownValue : public NodeError {
 public:
  using NodeError::NodeError;
};

class Importer;
class NodeCall;
struct Import;

// A node while it is converted. Inputs and attributes are checked when they are read; every error
// names the node.
class NodeCall {
 public:
  // `call`: of a formula, a graph of one call; else null.
  NodeCall(Importer& importer, const FileNode& node, const Import& row, const Scope& scope,
           std::vector<Value> inputs, const Graph* call = nullptr)
      : importer_(importer),
        node_(node),
        row_(row),
        scope_(scope),
        inputs_(std::move(inputs)),
        call_(call) {}
  // The same with other inputs.
  NodeCall with(std::vector<Value> inputs) const {
    return {importer_, node_, row_, scope_, std::move(inputs), call_};
  }

  const FileNode& node() const { return node_; }
  const Graph* call() const { return call_; }
  const Import& row() const { return row_; }
  Importer& importer() const { return importer_; }
  const Scope& scope() const { return scope_; }
  int64_t opset() const;

  // The inputs. x(i) throws if the input is absent.
  const std::vector<Value>& inputs() const { return inputs_; }
  std::size_t count() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].has_value(); }
  const Value& value(std::size_t i) const;
  const Tensor& x(std::size_t i) const { return value(i).tensor(); }
  std::vector<Tensor> all() const;
  Shape shape(std::size_t i) const { return x(i).type()->shape(); }
  int rank(std::size_t i) const { return x(i).type()->rank(); }
  DType dtype(std::size_t i) const { return x(i).dtype(); }
  bool is_known(std::size_t i) const { return has(i) && inputs_[i].known.has_value(); }
  // The elements of an input that has to be known. throws: UnknownValue.
  Tensor known(std::size_t i) const;
  std::vector<int64_t> ints(std::size_t i) const;
  std::vector<double> reals(std::size_t i) const;
  int64_t integer(std::size_t i) const;
  double real(std::size_t i) const;
  bool flag(std::size_t i) const;

  // The attributes.
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  int64_t integer(std::string_view attribute) const;
  int64_t integer(std::string_view attribute, int64_t otherwise) const;
  double real(std::string_view attribute, double otherwise) const;
  std::string text(std::string_view attribute) const;
  std::string text(std::string_view attribute, std::string otherwise) const;
  std::vector<int64_t> ints(std::string_view attribute) const;
  std::vector<int64_t> ints(std::string_view attribute, std::vector<int64_t> otherwise) const;
  std::vector<double> reals(std::string_view attribute) const;
  std::vector<std::string> texts(std::string_view attribute) const;
  Tensor tensor(std::string_view attribute) const;
  const FileGraph& graph(std::string_view attribute) const;
  // A dtype by its number. throws for a dtype that Etude lacks.
  DType dtype(std::string_view attribute, DType otherwise) const;
  DType dtype_of_number(int64_t number) const;

  // The results that the model names.
  std::size_t results() const { return node_.outputs.size(); }
  bool wants(std::size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }

  // An axis counted from the front. throws for an axis outside of the rank.
  int64_t axis(int64_t given, int rank) const;
  std::vector<int64_t> axes(std::vector<int64_t> given, int rank) const;

  template <class... A>
  [[noreturn]] void refuse(fmt::format_string<A...> text, A&&... arguments) const {
    fail(ErrorCode::kUnimplemented, fmt::format(text, std::forward<A>(arguments)...));
  }
  template <class... A>
  void require(bool holds, fmt::format_string<A...> text, A&&... arguments) const {
    if (!holds) fail(ErrorCode::kInvalidArgument, fmt::format(text, std::forward<A>(arguments)...));
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& text) const;

 private:
  const FileAttribute* find(std::string_view name) const;
  const FileAttribute& attribute(std::string_view name) const;
  template <class T>
  const T& typed(std::string_view name, const char* kind) const;
  std::string input_name(std::size_t i) const;

  Importer& importer_;
  const FileNode& node_;
  const Import& row_;
  const Scope& scope_;
  std::vector<Value> inputs_;
  const Graph* call_;
};

// A row of the table: how to import an operator of the domain ai.onnx.
struct Import {
  using Convert = std::vector<Tensor> (*)(const NodeCall&);
  using Run = std::vector<Value> (*)(const NodeCall&);
  enum class Kind : uint8_t {
    kPlain,
    kFacts,   // its results depend on the types of its inputs, or are known
    kRandom,  // it draws numbers
    kSizes,   // the sizes of its results depend on elements, so all inputs have to be known
  };

  std::string_view op;          // "Conv"
  std::string_view inputs;      // their names: "X W B?", "data..." for any number
  std::string_view attributes;  // their names, for all opsets
  Convert convert = nullptr;
  Kind kind = Kind::kPlain;
  Run run = nullptr;              // of control flow, in place of `convert`
  std::string_view refusal = "";  // why the operator is not imported
  bool is_elementwise = false;    // of operands that broadcast
};

using Imports = std::vector<Import>;
void add_elementwise_imports(Imports& to);
void add_activation_imports(Imports& to);
void add_reduction_imports(Imports& to);
void add_shape_imports(Imports& to);
void add_index_imports(Imports& to);
void add_network_imports(Imports& to);
void add_normalization_imports(Imports& to);
void add_pool_imports(Imports& to);
void add_recurrent_imports(Imports& to);
void add_attention_imports(Imports& to);
void add_quantization_imports(Imports& to);
void add_image_imports(Imports& to);
void add_region_imports(Imports& to);
void add_deform_imports(Imports& to);
void add_signal_imports(Imports& to);
void add_random_imports(Imports& to);
void add_control_imports(Imports& to);
void add_refused_imports(Imports& to);

// The row of an operator; null if there is none. All rows, for messages.
const Import* find_import(std::string_view op);
const Imports& all_imports();

// Limits the import of one file: its memory and its work follow from the size of the file.
// A step is the run of a node. Running a node takes longer than reading an item.
class ImportBudget {
 public:
  explicit ImportBudget(uint64_t file_bytes);
  // At the start of each trace. The memory of a trace is free after it; all traces share the work.
  void begin_trace();
  // Whether so many more are left; if so, they are taken.
  bool has_steps(uint64_t n) { return take(n, trace_steps_left_) && take(n, steps_left_); }
  // How many bytes are missing; 0 if there are enough, which are taken.
  uint64_t missing_bytes(uint64_t n);

 private:
  static bool take(uint64_t n, uint64_t& left) {
    if (n > left) return false;
    left -= n;
    return true;
  }
  uint64_t most_bytes_, most_trace_steps_, steps_left_;
  uint64_t bytes_left_ = 0, trace_steps_left_ = 0;
};

// Runs the nodes of one model.
class Importer {
 public:
  // One trace. `has_open_sizes`: the graph is traced for several sizes, so constants that may
  // depend on them are recorded as calls.
  Importer(const FileModel& model, std::string file, uint64_t file_bytes, ImportBudget& budget,
           int64_t max_loop_steps, bool has_open_sizes);

  int64_t max_loop_steps() const { return max_loop_steps_; }

  // Runs the nodes of a graph that its results need. `scope` holds its inputs and constants.
  std::vector<Value> run(const FileGraph& graph, Scope& scope);
  // The same for a graph in an attribute, with these inputs.
  std::vector<Value> run_inner(const FileGraph& graph, const Scope& outer,
                               std::vector<Value> inputs);
  // The same image with channels last, if it is known: functions of images have channels last here,
  // so chains of them need no transposes. null: unknown.
  const Tensor* channels_last(const Tensor& x) const;
  void set_channels_last(const Tensor& x, const Tensor& last);
  // Whether this library wrote the model. Two nodes of it are two calls, unless they are a formula.
  bool is_ours() const { return model_.producer == "etude"; }
  // The operand of a node that made a value, for functions that join two nodes. null: another node.
  const Tensor* operand_of(std::string_view op, const Tensor& made) const;
  void set_operand(std::string_view op, const Tensor& made, const Tensor& operand);
  // A node in errors: the file, its name and its operator.
  std::string title(const FileNode& node) const;
  // throws: kResourceExhausted for memory of constants and for steps beyond the budget.
  void need_bytes(const NodeCall& call, int64_t bytes);
  void need_steps(const NodeCall& call, int64_t steps) { need_steps(call.node(), steps); }
  // The version of the operators that run now: of the model, or of a function.
  int64_t opset() const { return opset_; }

 private:
  void need_steps(const FileNode& node, int64_t steps);
  std::vector<Value> run_node(const FileNode& node, const Scope& scope);
  std::vector<Value> run_call(const FileNode& node, const Graph& call, const Scope& scope);
  std::vector<Value> run_row(const NodeCall& call);
  void add_functions();
  const FileFunction* function_of(const FileNode& node) const;
  std::vector<Value> run_function(const FileNode& node, const FileFunction& function,
                                  const Scope& scope);
  const Value& value_of(const FileNode& node, std::size_t input, const Scope& scope) const;
  void keep_results(const FileNode& node, std::vector<Value> results, Scope& scope) const;
  const GraphFacts& facts(const FileGraph& graph);
  std::vector<Value> inputs_of(const FileNode& node, const Import& row, const Scope& scope) const;
  std::vector<Value> converted(const NodeCall& call);
  std::vector<Value> in_channels_last(const NodeCall& call);
  std::vector<Value> constants(const NodeCall& call);
  std::vector<Tensor> folded(const NodeCall& call);
  void check_attributes(const FileNode& node, const Import& row) const;
  // The line of the calls of a node: the user's line, if this library wrote the model, else the
  // name of the file with the number of the node.
  CallSite site_of(const FileNode& node, std::size_t number) const;

  const FileModel& model_;
  const std::string file_;
  const uint64_t file_bytes_;
  const int64_t max_loop_steps_;
  const bool has_open_sizes_;
  int64_t levels_ = 0;  // of graphs that run in graphs
  const int64_t most_levels_;
  ImportBudget& budget_;
  // By image: it, so that it lives, and the image with channels last.
  std::unordered_map<const void*, std::pair<Tensor, Tensor>> last_;
  struct Made {
    std::string_view op;
    Tensor made, operand;
  };
  std::unordered_map<const void*, Made> made_;
  std::unordered_map<const FileGraph*, GraphFacts> facts_;
  int64_t opset_;
  // By domain, name and overload.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const FileFunction*>
      by_name_;
  std::vector<const FileFunction*> functions_;  // that run now, from the outermost on
  std::unordered_map<const FileNode*, std::unique_ptr<FileGraph>> bodies_;  // of calls of functions
};

// x as this dtype; x itself if it has it.
Tensor as_dtype(const Tensor& x, DType dtype);
// The least and the largest value of a dtype, as a scalar: infinities for floats.
Tensor least_of(DType dtype);
Tensor largest_of(DType dtype);
// int64 constants.
Tensor int_tensor(const std::vector<int64_t>& values);
Tensor int_scalar(int64_t value);
// 0, 1, ..., count - 1.
Tensor numbered(int64_t count, DType dtype = kInt64);
// A vector along an axis of a tensor of this rank.
Tensor on_axis(const Tensor& x, int64_t axis, int rank);
// The elements begin to end - 1 of an axis.
Tensor span_of(const Tensor& x, int64_t axis, int64_t begin, int64_t end);

}  // namespace etude::onnx::importing
