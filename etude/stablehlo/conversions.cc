// SPDX-License-Identifier: Apache-2.0
#include "etude/stablehlo/conversions.h"

#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/call/run.h"
#include "etude/core/context/context.h"
#include "etude/stablehlo/emit.h"

namespace etude::stablehlo::internal {
namespace {

// All conversions, by op.
class Table {
 public:
  Table() {
    for (const auto add : {add_elementwise_conversions, add_scalar_conversions,
                           add_reduction_conversions, add_shape_conversions, add_index_conversions,
                           add_order_conversions, add_product_conversions, add_window_conversions,
                           add_pool_conversions, add_network_conversions, add_attention_conversions,
                           add_control_conversions, add_fourier_conversions}) {
      add(conversions_);
    }
    for (const Conversion& conversion : conversions_) {
      const bool is_new = by_op_.emplace(conversion.op, &conversion).second;
      ETUDE_CHECK(is_new, "op '{}' has two conversions", conversion.op);
    }
  }

  const Conversion* find(const Op& op) const {
    const auto found = by_op_.find(op.full_name());
    return found == by_op_.end() ? nullptr : found->second;
  }

 private:
  Conversions conversions_;
  std::unordered_map<std::string_view, const Conversion*> by_op_;
};

bool is_half(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

}  // namespace

DType working_dtype(const Conversion& conversion, DType dtype) {
  return is_half(dtype) && !conversion.dtypes.contains(dtype) ? kFloat32 : dtype;
}

const Conversion* find_conversion(const Op& op, std::span<const Type* const> types,
                                  const Attrs& attrs) {
  static const etude::internal::Permanent<Table> table;
  const Conversion* conversion = table->find(op);
  if (conversion == nullptr) return nullptr;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == nullptr || !op.operand(i).dtypes.empty()) continue;
    const DType dtype = working_dtype(*conversion, types[i]->dtype());
    if (!conversion->dtypes.contains(dtype)) return nullptr;
  }
  return conversion->fits == nullptr || conversion->fits({types, attrs}) ? conversion : nullptr;
}

Sizes Call::axes() const {
  return attrs.has("axis") ? axes_from_front(attrs.ints("axis"), rank(0)) : all_axes(rank(0));
}

Term Call::evaluate(std::span<const Tensor> operands, const Attrs& with) const {
  const BottomScope at_once(eager_context());
  return writer.constant(etude::internal::run(op, OperandList(operands), with));
}

Terms Call::splice(const Graph& graph, const Terms& inputs) const {
  return emit_graph(writer, graph, inputs);
}

}  // namespace etude::stablehlo::internal
