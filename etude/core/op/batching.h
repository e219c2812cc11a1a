// SPDX-License-Identifier: Apache-2.0
// Batching rules shared by many op records: .batch = batching::along_axis. The argument of a rule
// is defined in rules.h. The context that calls the rules is autodiff/batch.h.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace batching {

// Element-wise ops: batched operands get axes of size 1 after the batch axis, so that ranks agree.
Values aligned(const BatchCall& call);
// Ops that treat leading axes as independent, for all attributes.
Values same(const BatchCall& call);
// The attribute "axis", an axis or a list of axes, counts axes of an example. If absent, it means
// all axes.
Values along_axis(const BatchCall& call);
// The same, but "axis" counts axes of the result, which has more axes than the operand.
Values along_new_axis(const BatchCall& call);
// For ops whose operands in `examples` hold independent examples along axis 0 already. The rule
// merges the batch axis into axis 0. It does not cover a call in which another operand is batched.
template <uint64_t examples>
Values joined(const BatchCall& call);

// Operand i with the examples along axis 0. An operand that is not batched is copied for each
// example.
Tensor leading(const BatchCall& call, std::size_t i);
// A batch of `size` copies of x.
Tensor spread(const Tensor& x, int64_t size);
// Calls the same op on other operands, with some attributes changed.
Values call_again(const BatchCall& call, const std::vector<Tensor>& operands,
                  std::initializer_list<std::pair<std::string_view, AttrValue>> changes = {});
// x with the shape [size of axis 0, sizes...].
Tensor with_example_shape(const Tensor& x, const Shape& example);
// `example` with axes of size 1 in front, up to `rank` axes.
Shape with_rank(const Shape& example, int rank);
// The type of one row along axis 0 of a tensor, that is, of one example.
const Type* example_type(const Type* whole);
// `first` followed by `sizes`.
std::vector<int64_t> behind(int64_t first, std::span<const int64_t> sizes);

// The implementation of `joined`.
Values join_examples(const BatchCall& call, uint64_t examples);

template <uint64_t examples>
Values joined(const BatchCall& call) {
  return join_examples(call, examples);
}

}  // namespace batching
}  // namespace etude
