// SPDX-License-Identifier: Apache-2.0
// Batching rules that many op records share: .batch = batching::along_axis. What a rule is given is
// in rules.h; the context that calls them is runtime/batch.h.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace batching {

// Element-wise: batched operands get axes of size 1 behind the batch, so that ranks line up.
Values aligned(const BatchCall& call);
// The op keeps leading axes as they are, whatever its attributes.
Values same(const BatchCall& call);
// The attribute "axis", one or a list, counts axes of an example, of which an absent one means all.
Values along_axis(const BatchCall& call);
// The same where "axis" counts axes of the result, which has more than the operand.
Values along_new_axis(const BatchCall& call);
// Axis 0 of operands holds examples already, each for itself: batches join it. Not covered if an
// operand that is not in `examples` is batched.
template <uint64_t examples>
Values joined(const BatchCall& call);

// Operand i with the examples along axis 0; copies of it if it is not batched.
Tensor leading(const BatchCall& call, std::size_t i);
// A batch of copies of x, one for each of `size` examples.
Tensor spread(const Tensor& x, int64_t size);
// A call of the same op on other operands, with some attributes changed.
Values call_again(const BatchCall& call, const std::vector<Tensor>& operands,
                  std::initializer_list<std::pair<std::string_view, AttrValue>> changes = {});
// x with the shape [size of axis 0, sizes...].
Tensor with_example_shape(const Tensor& x, const Shape& example);
// `example` with axes of size 1 in front, up to `rank` axes.
Shape with_rank(const Shape& example, int rank);
// The type of one of the examples, or rows, that lie along axis 0 of a tensor.
const Type* example_type(const Type* whole);
// `sizes` behind `first`.
std::vector<int64_t> behind(int64_t first, std::span<const int64_t> sizes);

// What `joined` is made of.
Values join_examples(const BatchCall& call, uint64_t examples);

template <uint64_t examples>
Values joined(const BatchCall& call) {
  return join_examples(call, examples);
}

}  // namespace batching
}  // namespace etude
