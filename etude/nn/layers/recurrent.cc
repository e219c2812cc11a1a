// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/recurrent.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/ops.h"

namespace etude::nn {

namespace internal {

Tensor time_first(const Tensor& x) { return swapaxes(x, 0, 1); }
Tensor as_one_step(const Tensor& x) { return expand_dims(x, {1}); }

Tensor steps_within(const Tensor& lengths, int64_t n, int64_t time) {
  ETUDE_REQUIRE(is_integer(lengths.dtype()) && lengths.shape() == Shape{n},
                "the lengths are {}, but must be integers [{}]", lengths.type()->to_string(), n);
  const Tensor steps = arange(static_cast<double>(time), {.dtype = kInt64});
  const Tensor ends = reshape(astype(lengths, kInt64), {1, n});
  return reshape(reshape(steps, {time, 1}) < ends, {time, n, 1});
}

Tensor reversed(const Tensor& x, const Tensor& lengths) {
  if (!lengths.has_value()) return flip(x, {.axis = 1});
  const int64_t n = x.shape()[0], time = x.shape()[1];
  const Tensor steps = reshape(arange(static_cast<double>(time), {.dtype = kInt64}), {1, time});
  const Tensor ends = reshape(astype(lengths, kInt64), {n, 1});
  const Tensor from = where(steps < ends, ends - steps - 1, steps);
  return gather_nd(x, reshape(from, {n, time, 1}), {.batch_dims = 1});
}

void keep_where(Tensor& now, const Tensor& mask, const Tensor& was) {
  std::vector<int64_t> shape(static_cast<std::size_t>(now.rank()), 1);
  shape[0] = mask.shape()[0];
  const Tensor each = etude::internal::reshaped(mask, shape);
  now = was.has_value() ? where(each, now, was)
                        : where(each, now, etude::internal::full(now.type(), 0));
}

void require_merge(const std::string& merge) {
  ETUDE_REQUIRE(merge == "concat" || merge == "sum" || merge == "average" || merge == "multiply" ||
                    merge == "stack",
                "merge is '{}', but must be 'concat', 'sum', 'average', 'multiply' or 'stack'",
                merge);
}

Tensor merged(const Tensor& forward, const Tensor& backward, const std::string& merge) {
  if (merge == "concat") return concat({forward, backward}, {.axis = -1});
  if (merge == "stack") return stack({forward, backward}, {.axis = 2});
  if (merge == "multiply") return forward * backward;
  const Tensor sum = forward + backward;
  return merge == "sum" ? sum : sum * 0.5;
}

}  // namespace internal

ETUDE_INTERNAL_RECURRENT(, SimpleRNNCell);
ETUDE_INTERNAL_RECURRENT(, LSTMCell);
ETUDE_INTERNAL_RECURRENT(, GRUCell);
template class Recurrent<ConvLSTM2DCell>;

}  // namespace etude::nn
