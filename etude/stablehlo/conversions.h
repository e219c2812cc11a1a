// SPDX-License-Identifier: Apache-2.0
// Conversions: functions that write a call of an op as operators of StableHLO. Each is a row of a
// table in conversions/. An op needs no conversion of its own if it is a composition, which is
// lowered to calls of other ops, or element-wise, which is lowered to the functions of its program
// (passes/lower.h). tests/stablehlo/refused.txt lists the ops that have no form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/core/op/op.h"
#include "etude/core/type.h"
#include "etude/graph/graph.h"
#include "etude/stablehlo/module.h"

namespace etude::stablehlo::internal {

// One call of an op while its lines are added.
class Call {
 public:
  Call(Writer& to, const Op& called, const Attrs& call_attrs, Terms inputs, Types results)
      : writer(to),
        op(called),
        attrs(call_attrs),
        inputs_(std::move(inputs)),
        results_(std::move(results)) {}

  Writer& writer;
  const Op& op;
  const Attrs& attrs;

  // The operands, after casts.
  bool has(std::size_t i) const { return i < inputs_.size() && !inputs_[i].is_absent(); }
  Term in(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : Term{}; }
  const Terms& inputs() const { return inputs_; }
  const Shape& shape(std::size_t i) const { return inputs_[i].shape(); }
  int rank(std::size_t i) const { return inputs_[i].rank(); }
  const Type& result(std::size_t i = 0) const { return *results_[i]; }
  std::size_t results() const { return results_.size(); }

  // A number of the dtype of the first operand.
  Term number(double value) const { return writer.number(value, inputs_[0].dtype()); }
  // The attribute `axis` from the front.
  int64_t axis() const { return axis_from_front(attrs.integer("axis"), rank(0)); }
  // The attribute `axis` as a list; all axes without it.
  Sizes axes() const;
  // The results of the op itself, run now on these operands: for constants.
  Term evaluate(std::span<const Tensor> operands, const Attrs& with) const;
  // The lines of a graph of Etude with these inputs.
  Terms splice(const Graph& graph, const Terms& inputs) const;

 private:
  Terms inputs_;
  Types results_;
};

// The facts that decide whether a conversion applies to a call.
struct CallFacts {
  std::span<const Type* const> types;
  const Attrs& attrs;

  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
};

// A row of the table.
struct Conversion {
  std::string_view op;  // "nn.relu"
  // The operator if it takes the same operands and no attributes; else "". Its operands broadcast.
  std::string_view name = "";
  // The dtypes of operands without dtypes of their own in the record. Halves are cast to float32
  // where the set lacks them, and the results back. Calls with other dtypes have no form.
  DTypeSet dtypes = kAnyDType;
  Terms (*write)(Call& call) = nullptr;
  // Whether the conversion applies to this call; null: to every call. Other calls are lowered.
  bool (*fits)(const CallFacts& call) = nullptr;
};

using Conversions = std::vector<Conversion>;
void add_elementwise_conversions(Conversions& to);
void add_scalar_conversions(Conversions& to);
void add_reduction_conversions(Conversions& to);
void add_shape_conversions(Conversions& to);
void add_index_conversions(Conversions& to);
void add_order_conversions(Conversions& to);
void add_product_conversions(Conversions& to);
void add_window_conversions(Conversions& to);
void add_pool_conversions(Conversions& to);
void add_network_conversions(Conversions& to);
void add_attention_conversions(Conversions& to);
void add_control_conversions(Conversions& to);
void add_fourier_conversions(Conversions& to);

inline constexpr DTypeSet kFull = DTypeSet(kFloat32) | kFloat64;
inline constexpr DTypeSet kFullComplex = kFull | kComplex;
// Numbers without halves: sums and products of halves are computed in float32.
inline constexpr DTypeSet kSummed = kIntegers | kFull | kComplex;

// The conversion for a call; null if there is none.
const Conversion* find_conversion(const Op& op, std::span<const Type* const> types,
                                  const Attrs& attrs);
// The dtype in which operands of this dtype are computed.
DType working_dtype(const Conversion& conversion, DType dtype);

}  // namespace etude::stablehlo::internal
