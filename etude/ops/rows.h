// SPDX-License-Identifier: Apache-2.0
// Range-for over the rows of a tensor:
//
//   for (const Tensor& row : x) h = tanh(h + row);
//
// The loop begins with one call of the op unstack, which makes all rows. So a later write to x
// changes no row. A gradient costs as much as one stack of the rows. Staged functions unroll the
// loop. This header is for users. Code of the library calls unstack instead.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "etude/core/call/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The iterator of a loop over rows. It models std::input_iterator, and its end is
// std::default_sentinel. Copies share the rows. threads: thread-compatible.
class RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;

  explicit RowIterator(std::vector<Tensor> rows)
      : rows_(std::make_shared<const std::vector<Tensor>>(std::move(rows))) {}

  const Tensor& operator*() const { return (*rows_)[at_]; }
  const Tensor* operator->() const { return &**this; }
  RowIterator& operator++() {
    ++at_;
    return *this;
  }
  void operator++(int) { ++at_; }
  friend bool operator==(const RowIterator& x, std::default_sentinel_t) {
    return x.at_ == x.rows_->size();
  }

 private:
  std::shared_ptr<const std::vector<Tensor>> rows_;
  std::size_t at_ = 0;
};

// begin() returns an iterator at the first row: row i is slice i of x along axis 0. end() returns
// the end of the rows. For range-for.
//
// shapes: x [n, ...]; each row [...].
// throws: kInvalidArgument for a scalar; kFailedPrecondition for an absent tensor. A staged
//   function fails with kFailedPrecondition if its signature leaves n open.
// cost:   one call of unstack.
RowIterator begin(const Tensor& x, CallSite where = CallSite::here());
template <ReadableAsTensor T>
RowIterator begin(const T& x, CallSite where = CallSite::here()) {
  return begin(Tensor(x.read()), where);
}
inline std::default_sentinel_t end(const Tensor&) { return {}; }
template <ReadableAsTensor T>
std::default_sentinel_t end(const T&) {
  return {};
}

}  // namespace etude
