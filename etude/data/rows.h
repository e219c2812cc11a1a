// SPDX-License-Identifier: Apache-2.0
// Functions on samples. Samples are pytrees of tensors whose first axis counts the samples. The
// functions count samples, select batches, and join single samples to batches. Used by Loader and
// by hand-written loops. Rows are copied or shared directly: no op runs and nothing is recorded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

// Inputs with their labels. The data sets of this folder and their batches have this type.
struct Samples {
  Tensor inputs;
  Tensor labels;
};

// Returns the rows `rows` of x, in this order.
//
// throws: kInvalidArgument for a scalar; kOutOfRange for a row out of range; kFailedPrecondition
//         for a tensor without elements, such as in a function that is being traced.
// cost:   one copy of the rows.
Tensor take_rows(const Tensor& x, std::span<const int64_t> rows, CallSite where = CallSite::here());
// Returns rows [begin, end) of x. throws: as take_rows.
// cost: O(1): shares the storage of x, or copies up to 4096 bytes.
Tensor slice_rows(const Tensor& x, int64_t begin, int64_t end, CallSite where = CallSite::here());
// Stacks tensors of one type along a new first axis.
//
// throws: kInvalidArgument for an empty list or differing types, with the index of the first tensor
//         that differs; kFailedPrecondition as take_rows.
Tensor stack_rows(std::span<const Tensor* const> rows, CallSite where = CallSite::here());

// Returns row `row` of x, without the first axis. throws: as take_rows. cost: as slice_rows.
Tensor row_at(const Tensor& x, int64_t row, CallSite where = CallSite::here());
// As stack_rows, for tensors of one dtype and rank whose sizes may differ. Each tensor is padded
// with `value`, at the end of each axis, to the largest size of that axis.
//
// throws: kInvalidArgument for an empty list; for a tensor with another dtype or rank than the
// first, with its index; for a `value` that an integer dtype cannot represent.
Tensor stack_padded(std::span<const Tensor* const> rows, double value,
                    CallSite where = CallSite::here());

namespace internal {
// Returns the size of the first axis. throws: kInvalidArgument for an absent tensor or a scalar, or
// if the size is not `expected`. A negative `expected` allows any size.
int64_t count_rows(const Tensor& x, int64_t expected, const std::string& path);
}  // namespace internal

// Returns the number of samples in a pytree of tensors.
//
// throws: kInvalidArgument for an absent tensor or a scalar, or if two tensors have different
// numbers of samples, naming the path of the second.
template <class S>
int64_t sample_count(const S& samples) {
  int64_t count = -1;
  for_each_leaf<Tensor, Marked::kVisit>(samples, [&](const std::string& path, const Tensor& x) {
    count = internal::count_rows(x, count, path);
  });
  return count < 0 ? 0 : count;
}

// Returns the samples at `rows`, in this order, as a pytree of the same type.
template <class S>
S take_samples(const S& samples, std::span<const int64_t> rows) {
  return map_leaves<Tensor, Marked::kVisit>(samples,
                                            [&](const Tensor& x) { return take_rows(x, rows); });
}

// Returns the samples [begin, end).
template <class S>
S slice_samples(const S& samples, int64_t begin, int64_t end) {
  return map_leaves<Tensor, Marked::kVisit>(
      samples, [&](const Tensor& x) { return slice_rows(x, begin, end); });
}

// Returns sample `i`. Its tensors do not have the first axis.
template <class S>
S sample_at(const S& samples, int64_t i) {
  return map_leaves<Tensor, Marked::kVisit>(samples, [&](const Tensor& x) { return row_at(x, i); });
}

namespace internal {
// Collects the leaves of samples by the position of a leaf in its sample.
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

// Joins single samples to one batch. Samples are pytrees of tensors of equal types. Each leaf gets
// a new first axis.
//
// throws: kInvalidArgument if there are no samples, or if leaves have different types.
template <class S>
S collate(std::span<const S> samples) {
  return internal::join_samples(
      samples, [](std::span<const Tensor* const> rows) { return stack_rows(rows); });
}

// As collate, but leaves may have different sizes. Leaves are padded by stack_padded.
template <class S>
S collate_padded(std::span<const S> samples, double value = 0) {
  return internal::join_samples(
      samples, [value](std::span<const Tensor* const> rows) { return stack_padded(rows, value); });
}

}  // namespace data
}  // namespace etude
