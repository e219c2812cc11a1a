// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/reduce/group_products.h"

#include <vector>

#include "etude/core/call/builtin.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"

namespace etude::ops {
namespace {

// Products of the rows of the same group on one side of each row. `edge` [n, 1, ..] holds where a
// group begins, seen from that side: the recurrence starts again there.
Tensor products_on_one_side(const Tensor& rows, const Tensor& edge, bool reverse) {
  const Type* scalar = intern_type(rows.dtype(), {});
  const Tensor one = internal::full(scalar, 1), zero = internal::full(scalar, 0);
  const Tensor neighbours = run(op<"shift_along">(), {&rows}, {int64_t{0}, reverse ? -1 : 1});
  const Tensor factors = where(edge, zero, neighbours);
  const Tensor starts = broadcasted(where(edge, one, zero), rows.shape());
  return run(op<"linear_scan">(), {&factors, &starts}, {int64_t{0}, reverse});
}

}  // namespace

Tensor products_of_others(const Tensor& rows, const Tensor& groups) {
  const int64_t count = rows.shape()[0];
  const Tensor order = argsort(groups), back = argsort(order);
  const Tensor sorted = take(groups, order);
  const Tensor numbers = arange(0, {.stop = static_cast<double>(count), .dtype = kInt64});
  std::vector<int64_t> column(static_cast<std::size_t>(rows.rank()), 1);
  column[0] = count;
  // Whether the neighbour on a side is of another group; `end` has no neighbour on that side.
  const auto edge = [&](int64_t shift, int64_t end) {
    const Tensor other = not_equal(sorted, roll(sorted, {shift}));
    const Tensor last = equal(numbers, internal::cast(Tensor(end), kInt64));
    return reshape(logical_or(other, last), column);
  };
  const Tensor ordered = take(rows, order);
  const Tensor before = products_on_one_side(ordered, edge(1, 0), false);
  const Tensor after = products_on_one_side(ordered, edge(-1, count - 1), true);
  return take(before * after, back);
}

}  // namespace etude::ops
