// SPDX-License-Identifier: Apache-2.0
// The few ops that the core and the contexts call, as functions. All other ops are called through
// etude/ops.h, by users and by op records.
#pragma once

#include <span>
#include <vector>

#include "etude/core/call/arg.h"
#include "etude/core/context/context.h"
#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// x as a new value, for contexts that track values (op identity).
Tensor identity(const Tensor& x, CallSite where = {});
// x without its derivative (op stop_gradient).
Tensor stop_gradient(const Tensor& x);
// x cast to another dtype (op astype); x itself if it has that dtype.
Tensor cast(const Tensor& x, DType dtype, CallSite where = {});
// x with another shape (op reshape), or broadcast to another shape (op broadcast_to). Both return x
// itself if it has that shape.
Tensor reshaped(const Tensor& x, const Shape& shape);
Tensor broadcasted(const Tensor& x, const Shape& shape);
// Joins tensors along a new axis (op stack), and splits a tensor along axis 0 (op unstack).
Tensor stack(std::span<const Tensor> parts, int64_t axis = 0, CallSite where = {});
Values unstack(const Tensor& x);
// Tensors joined along axis 0 (op concat).
Tensor concat(std::span<const Tensor> parts, CallSite where = {});
// Rows of x (op take).
Tensor rows_of(const Tensor& x, const Tensor& indices);
// x with axes 0 and 1 swapped: axis 0 moves after axis 1 (op moveaxis).
Tensor with_first_axis_second(const Tensor& x);
// The scalar product of tensors of one shape (ops multiply, sum).
Tensor dot(const Tensor& x, const Tensor& y);
// Sums the rows of each segment: row i belongs to segment numbers[i] of n (op segment_sum).
Tensor segment_sum(const Tensor& rows, const Tensor& numbers, int64_t n);
Tensor sqrt(const Tensor& x);
Tensor negative(const Arg& x);
// x + y; overwrites x if it is not shared (op add).
Tensor add(Tensor&& x, const Tensor& y, CallSite where = {});
// Sums x over the axes that broadcasting added to `shape` (op sum_to); returns x itself if there
// are none.
Tensor sum_to(const Tensor& x, const Shape& shape, CallSite where = {});
// A tensor filled with one value (op full).
Tensor full(const Type* type, double value, CallSite where = {});
// x with its imaginary part negated (op conj); x itself for real dtypes.
Tensor conj(const Tensor& x, CallSite where = {});
// The attributes of a program without numeric attributes, for the op fused_elementwise.
Attrs program_attrs(const ScalarDef& def);
// The op that runs a program (op fused_elementwise), and the attributes of a call with numeric
// attributes.
const Op& program_op();
Attrs program_attrs(const ScalarDef& def, const std::vector<double>& params);
// Runs a program on operands, with its numeric attributes (op fused_elementwise).
Tensor run_program(const ScalarDef& def, Operands operands, const std::vector<double>& params,
                   CallSite where = {});
// Derives a key for each number from `key` (op random_fold_in).
Tensor fold_in(const Tensor& key, const Tensor& numbers);
// The attributes of a call of a graph, and the call itself (op call).
Attrs graph_attrs(const AttrObject& graph);
Values call_graph(const Attrs& graph, Operands operands, CallSite where);
// Reads and writes the value of a resource (ops read_variable, assign_variable).
Tensor read_resource(const Tensor& resource, CallSite where);
Tensor assign_resource(const Tensor& resource, const Tensor& x, CallSite where);
// Prints a line of text with an operand in place of each {} (op print).
void print_operands(const std::string& text, std::span<const Tensor> operands, CallSite where);
// Fails with `message` unless all elements are true (op assert_true).
void require_true(const Tensor& condition, std::string_view message, CallSite where);

}  // namespace internal
}  // namespace etude
