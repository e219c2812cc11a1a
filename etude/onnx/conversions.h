// SPDX-License-Identifier: Apache-2.0
// Conversions: functions that write a call of an op as nodes of ONNX. Each is a row of a table in
// conversions/. An op needs no conversion of its own if it is a composition, which is lowered to
// calls of other ops, or element-wise, which is lowered to the functions of its program
// (passes/lower.h). tests/onnx/refused.txt lists the ops that have no form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/core/dtype.h"
#include "etude/core/op/op.h"
#include "etude/core/type.h"
#include "etude/graph/graph.h"
#include "etude/onnx/model.h"
#include "etude/saved/axes.h"

namespace etude::onnx::internal {

// Facts that all nodes of a model share.
struct Writing {
  int64_t opset = 17;
  std::unordered_set<std::string> taken = {};  // names of the user
  int64_t next = 0;                            // of generated names
  bool is_in_formula = false;                  // calls become nodes without formulas of their own
  int64_t most_bytes = std::numeric_limits<int64_t>::max();  // of a constant that is computed

  // A name that no other value or node has: "Conv_3".
  std::string fresh(std::string_view base);
};

class Call;

// A value while a call is converted: its name and dtype, with operators that add nodes.
struct Term {
  Call* call = nullptr;
  Value name;
  DType dtype = kFloat32;
  bool is_absent() const { return name.empty(); }
};

// The graph of a branch or a step as a graph of ONNX. `make` gets the call that adds its nodes,
// and returns its results.
using MakeBody = etude::internal::FunctionRef<std::vector<Term>(Call&)>;

// One call of an op while its nodes are added.
class Call {
 public:
  Call(Writing& writing, GraphModel& to, const Op& op, const Attrs& call_attrs,
       std::span<const Type* const> types, Types results, std::string line)
      : attrs(call_attrs),
        writing_(writing),
        to_(to),
        op_(op),
        types_(types.begin(), types.end()),
        results_(std::move(results)),
        line_(std::move(line)) {}

  const Attrs& attrs;

  // The operands. `inputs` are their values after casts.
  void set_inputs(std::vector<Term> inputs) { inputs_ = std::move(inputs); }
  bool has(std::size_t i) const { return i < inputs_.size() && !inputs_[i].is_absent(); }
  Term in(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : Term{}; }
  const std::vector<Term>& inputs() const { return inputs_; }
  const Shape& shape(std::size_t i) const { return types_[i]->shape(); }
  int rank(std::size_t i) const { return types_[i]->rank(); }
  const Type& result(std::size_t i = 0) const { return *results_[i]; }
  std::size_t results() const { return results_.size(); }
  int64_t opset() const { return writing_.opset; }
  const Op& op() const { return op_; }

  // A node with one result, of the dtype of its first input.
  Term node(std::string_view op, const std::vector<Term>& inputs,
            std::vector<Attribute> attributes = {});
  // The same with a result of this dtype.
  Term node_of(DType dtype, std::string_view op, const std::vector<Term>& inputs,
               std::vector<Attribute> attributes = {});
  // A node with results of these dtypes.
  std::vector<Term> nodes(std::string_view op, const std::vector<Term>& inputs,
                          std::vector<Attribute> attributes, const std::vector<DType>& results);
  // The value as another dtype; itself if it has that dtype.
  Term cast(const Term& x, DType dtype);
  // Constants: a number, sizes or axes (int64), a tensor.
  Term number(double value, DType dtype);
  Term ints(const std::vector<int64_t>& values);
  Term constant(const Tensor& value);
  Term absent() { return {this, "", kFloat32}; }
  Term reshape(const Term& x, const std::vector<int64_t>& sizes);
  Term transpose(const Term& x, const std::vector<int64_t>& axes);
  Term unsqueeze(const Term& x, const std::vector<int64_t>& axes);
  // Memory for a constant that is computed. throws: kResourceExhausted beyond the limit.
  void need_bytes(int64_t rows, int64_t columns, DType dtype) const;
  // The results of the op itself, run now on these operands: for constants.
  Term evaluate(std::span<const Tensor> operands, const Attrs& with);

  // The nodes of a graph of Etude with these inputs, in the graph that this call adds to.
  std::vector<Term> splice(const Graph& graph, const std::vector<Term>& inputs);
  // A graph for an attribute. It reads values of this graph by their names.
  Attribute body(std::string_view name, std::vector<Port> inputs, const std::vector<Port>& outputs,
                 MakeBody make);
  std::string fresh(std::string_view base) { return writing_.fresh(base); }

 private:
  Writing& writing_;
  GraphModel& to_;
  const Op& op_;
  std::vector<const Type*> types_;
  Types results_;
  std::string line_;
  std::vector<Term> inputs_;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator*(const Term& a, double b);
Term operator/(const Term& a, double b);
Term operator-(double a, const Term& b);
Term operator<(const Term& a, const Term& b);
Term operator<(const Term& a, double b);
Term operator>(const Term& a, double b);
Term operator==(const Term& a, const Term& b);
Term operator==(const Term& a, double b);
// Of bools.
Term both(const Term& a, const Term& b);
Term either(const Term& a, const Term& b);
Term inverse(const Term& a);
Term where(const Term& condition, const Term& a, const Term& b);
// A node with one input and no attributes.
Term apply(std::string_view op, const Term& x);

// The facts that decide whether a conversion applies to a call.
struct CallFacts {
  std::span<const Type* const> types;
  const Attrs& attrs;
  int64_t opset;

  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
};

// A row of the table. An op may have several rows: the first row that applies writes the call.
struct Conversion {
  std::string_view op;  // "nn.relu"
  // The ONNX operator if it takes the same operands, without attributes; else "".
  std::string_view node = "";
  // The dtypes of operands without dtypes of their own in the record. Narrower dtypes are cast to
  // one of these, and the results back. Calls with other dtypes are refused.
  DTypeSet dtypes = kAnyDType;
  std::vector<Term> (*write)(Call& call) = nullptr;
  // Whether the conversion applies to this call; null: to every call. Calls to which no row applies
  // are lowered.
  bool (*fits)(const CallFacts& call) = nullptr;
  int64_t opset = 0;  // the first opset that has it
  // Whether its nodes are a formula (formula.h), even if there is one node. Nodes of element-wise
  // ops are a formula if there are several.
  bool is_formula = false;
};

using Conversions = std::vector<Conversion>;
void add_elementwise_conversions(Conversions& to);
void add_scalar_conversions(Conversions& to);
void add_reduction_conversions(Conversions& to);
void add_shape_conversions(Conversions& to);
void add_index_conversions(Conversions& to);
void add_order_conversions(Conversions& to);
void add_window_conversions(Conversions& to);
void add_network_conversions(Conversions& to);
void add_normalization_conversions(Conversions& to);
void add_control_conversions(Conversions& to);

// Dtypes that opset 17 and the kernels of runtimes for CPUs have in common.
inline constexpr DTypeSet kHalfToDouble = DTypeSet(kFloat16) | kFloat32 | kFloat64;
inline constexpr DTypeSet kWholeNumbers = DTypeSet(kInt32) | kInt64 | kUInt32 | kUInt64;
inline constexpr DTypeSet kNumbers = kHalfToDouble | kWholeNumbers;
// The same for operators that copy elements, and for Pad and Where.
inline constexpr DTypeSet kCopied = kIntegers | kHalfToDouble | kBool;
inline constexpr DTypeSet kPadded = kNumbers | kInt8 | kUInt8 | kBool;

// The conversion for a call; null if there is none.
const Conversion* find_conversion(const Op& op, std::span<const Type* const> types,
                                  const Attrs& attrs, int64_t opset);
// The dtype in which the nodes compute operands of this dtype; null if there is none.
std::optional<DType> working_dtype(const Conversion& conversion, DType dtype);

using saved::internal::all_axes;
using saved::internal::axes_from_front;
using saved::internal::axis_from_front;

}  // namespace etude::onnx::internal
