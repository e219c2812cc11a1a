// SPDX-License-Identifier: Apache-2.0
// Samples as pytrees of tensors whose first axis counts the samples: their number, batches of
// selected samples, and batches made of single samples. Used by Loader and by hand-written loops.
// Plain copies of rows: no op runs and nothing is recorded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

// Inputs with their labels: the result of the loaders of this folder, and the type of a batch.
struct Samples {
  Tensor inputs;
  Tensor labels;
};

// Rows `rows` of x, in that order.
//
// throws: kInvalidArgument for a scalar; kOutOfRange for a row out of range; kFailedPrecondition
//         for a tensor without elements, as in a function that is being traced.
// cost:   one copy of the rows.
Tensor take_rows(const Tensor& x, std::span<const int64_t> rows, CallSite where = CallSite::here());
// Rows [begin, end) of x. throws and cost: as above.
Tensor slice_rows(const Tensor& x, int64_t begin, int64_t end, CallSite where = CallSite::here());
// Stacks tensors of one type along a new first axis.
//
// throws: kInvalidArgument for an empty list or differing types, with the index of the first tensor
//         that differs; kFailedPrecondition as above.
Tensor stack_rows(std::span<const Tensor* const> rows, CallSite where = CallSite::here());

// Row `row` of x without the first axis. throws: as above. cost: none where storage is shared.
Tensor row_at(const Tensor& x, int64_t row, CallSite where = CallSite::here());
// The same for tensors of one dtype and rank whose sizes differ: each is padded at the end with
// `value` to the largest size of each axis.
//
// throws: kInvalidArgument for an empty list or a differing dtype or rank, with its index.
Tensor stack_padded(std::span<const Tensor* const> rows, double value,
                    CallSite where = CallSite::here());

namespace internal {
// Size of the first axis. throws: kInvalidArgument for a scalar, or for another size than
// `expected`; a negative `expected` allows any size.
int64_t count_rows(const Tensor& x, int64_t expected, const std::string& path);
}  // namespace internal

// The number of samples in a pytree of tensors.
//
// throws: kInvalidArgument if two tensors disagree, naming the path of the second.
template <class S>
int64_t sample_count(const S& samples) {
  int64_t count = -1;
  for_each_leaf<Tensor, Marked::kVisit>(samples, [&](const std::string& path, const Tensor& x) {
    count = internal::count_rows(x, count, path);
  });
  return count < 0 ? 0 : count;
}

// The samples at `rows`, in that order, as a pytree of the same kind.
template <class S>
S take_samples(const S& samples, std::span<const int64_t> rows) {
  return map_leaves<Tensor, Marked::kVisit>(samples,
                                            [&](const Tensor& x) { return take_rows(x, rows); });
}

// The samples [begin, end).
template <class S>
S slice_samples(const S& samples, int64_t begin, int64_t end) {
  return map_leaves<Tensor, Marked::kVisit>(
      samples, [&](const Tensor& x) { return slice_rows(x, begin, end); });
}

// Sample `i` alone; its tensors have no first axis.
template <class S>
S sample_at(const S& samples, int64_t i) {
  return map_leaves<Tensor, Marked::kVisit>(samples, [&](const Tensor& x) { return row_at(x, i); });
}

namespace internal {
// The leaves of samples by position.
class Columns {
 public:
  Columns();
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;
  ~Columns();
  void begin_sample() { next_ = 0; }
  void add(const Tensor& leaf);
  std::span<const Tensor* const> at(std::size_t place) const;

 private:
  std::vector<std::vector<const Tensor*>> rows_;
  std::size_t next_ = 0;  // position of the next leaf
};

// Joins samples leaf by leaf: leaves at one position are joined by stack(rows).
template <class S, class Stack>
S join_samples(std::span<const S> samples, const Stack& stack) {
  Columns columns;
  for (const S& sample : samples) {
    columns.begin_sample();
    for_each_leaf<Tensor, Marked::kVisit>(sample, [&](const Tensor& x) { columns.add(x); });
  }
  if (samples.empty()) static_cast<void>(stack_rows({}));  // throws: a batch needs a sample
  std::size_t i = 0;
  S first = samples.front();
  return map_leaves<Tensor, Marked::kVisit>(std::move(first),
                                            [&](const Tensor&) { return stack(columns.at(i++)); });
}
}  // namespace internal

// Joins single samples, pytrees of tensors of equal types, to one batch: each leaf gets a new first
// axis.
//
// throws: kInvalidArgument for no samples, or for leaves of differing types.
template <class S>
S collate(std::span<const S> samples) {
  return internal::join_samples(
      samples, [](std::span<const Tensor* const> rows) { return stack_rows(rows); });
}

// The same by stack_padded: leaves may differ in size.
template <class S>
S collate_padded(std::span<const S> samples, double value = 0) {
  return internal::join_samples(
      samples, [value](std::span<const Tensor* const> rows) { return stack_padded(rows, value); });
}

}  // namespace data
}  // namespace etude
