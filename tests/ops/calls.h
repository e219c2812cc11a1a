// SPDX-License-Identifier: Apache-2.0
// Calls for the op matrix, made from records alone: operands from the types, ranges and points to
// avoid that a record states, and a standard set of shapes for element-wise ops. Names no op.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/autodiff/graph_derivatives.h"
#include "etude/base/philox.h"
#include "etude/core/op/op.h"
#include "etude/core/op/registry.h"
#include "etude/graph/graph.h"
#include "etude/stage/trace.h"

namespace etude::matrix {

// One call of an op, with operands that have values.
struct Call {
  const Op* op = nullptr;
  DType dtype = kFloat32;
  int sample = 0;
  std::vector<Tensor> operands;  // some may be absent
  Attrs attrs;
  bool is_same_tensor = false;  // all operands that share a dtype are one tensor
  bool is_exempt = false;       // a program whose record has no_gradient_check

  OperandList list() const { return OperandList(std::span<const Tensor>(operands)); }
  // "atan2 cpu float32 sample 3".
  std::string label(std::string_view mode) const;
};

// Numbers for one purpose, the same in every run: a stream per (op, text).
class Draw {
 public:
  explicit Draw(std::string_view purpose);
  double uniform(double low, double high);
  uint64_t bits();

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

// A tensor of `type` with values in [low, high], none near a point of `avoid`.
Tensor draw_tensor(Draw& draw, const Type* type, std::pair<double, double> range,
                   std::span<const double> avoid);
// The same with values in [-1, 1]: a direction, a cotangent.
Tensor draw_like(Draw& draw, const Type* type);

// The dtypes for the tests of an op: the dtypes that its operands may share, else one.
std::vector<DType> dtypes_of(const Op& op);
// All calls of one op at one dtype; `seed` picks other values for the same calls.
std::vector<Call> calls_of(const Op& op, DType dtype, int seed = 0);
// The same call with the values of another seed; it lives until the next request for another op or
// dtype.
const Call& call_of_seed(const Call& call, int seed);
// The call as a graph, with its operands as inputs.
GraphRef graph_of(const Call& call);
// The same with operands of other types; null for an absent one.
internal::TracedGraph trace_of(const Call& call, std::span<const Type* const> types);
// Whether the sizes of results depend on the elements of operands, so that graphs do not hold it.
bool has_data_sizes(const Call& call);
// Its inputs with derivatives; and whether a graph can hold the derivative, whose sizes must not
// depend on data. Checks the error if not.
internal::Chosen movable_inputs(const Call& call);
bool has_graph_derivative(const Call& call, const Graph& graph);
// The operands of a case of `errors`: drawn as for calls (fill 0), or all of the value `fill`.
enum class Fill { kDrawn, kZeros, kHundreds };
Call error_call(const Op& op, const ErrorCase& c, Fill fill);
// "int32[4]", "[2,3]" (of `dtype`), or "-" (null).
const Type* operand_type(std::string_view text, DType dtype);

}  // namespace etude::matrix
