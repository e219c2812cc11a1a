// SPDX-License-Identifier: Apache-2.0
// Index expressions for Tensor::at and Variable::at, by NumPy's rules, and the assignable slice
// that at() returns. ops/index/indexing.cc evaluates index expressions.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "etude/core/call/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// start:stop:step of one axis. Absent ends are open. A negative start or stop counts from the end
// of the axis.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
};
// slice(stop), slice(start, stop), slice(start, stop, step). An end that is {} is open, so
// slice({}, {}, -1) reverses the axis.
inline Slice slice(std::optional<int64_t> stop) { return {{}, stop, 1}; }
inline Slice slice(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1) {
  return {start, stop, step};
}
struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis kNewAxis;
inline constexpr Ellipsis kEllipsis;
inline constexpr Slice kAll;

// One item of an index expression, with its source line.
class IndexItem {
 public:
  using Value = std::variant<int64_t, Slice, NewAxis, Ellipsis, Tensor>;

  template <std::integral T>
  IndexItem(T index, CallSite where = CallSite::here())
      : IndexItem(Number{static_cast<int64_t>(index)}, where) {}
  IndexItem(Slice s, CallSite where = CallSite::here());
  IndexItem(NewAxis a, CallSite where = CallSite::here());
  IndexItem(Ellipsis e, CallSite where = CallSite::here());
  IndexItem(const Tensor& t, CallSite where = CallSite::here());
  template <ReadableAsTensor T>
  IndexItem(const T& t, CallSite where = CallSite::here()) : IndexItem(Tensor(t.read()), where) {}

  IndexItem(const IndexItem& other);
  IndexItem(IndexItem&& other) noexcept;
  IndexItem& operator=(const IndexItem& other);
  IndexItem& operator=(IndexItem&& other) noexcept;
  ~IndexItem();

  const Value& value() const { return value_; }
  CallSite where() const { return where_; }

 private:
  struct Number {
    int64_t value;
  };
  IndexItem(Number index, CallSite where);

  Value value_;
  CallSite where_;
};
using Index = std::vector<IndexItem>;

enum class ScatterMode { kSet, kAdd, kMultiply };

// Returns the part of x at `index`. Implemented by ops, in ops/index/indexing.cc.
Tensor get_index(const Tensor& x, const Index& index, CallSite where);
// Sets or updates the part of x at `index`. Writes in place if `x` is unshared.
void set_index(Tensor& x, const Index& index, const Arg& value, ScatterMode mode, CallSite where);

// The part of a tensor variable that at() selects. It converts to a tensor, and it is assignable.
// Use it within one expression: the variable must outlive the slice.
class TensorSlice {
 public:
  TensorSlice(Tensor& target, Index index) : target_(target), index_(std::move(index)) {}
  TensorSlice(const TensorSlice&) = delete;

  // A slice that is converted to an operand has no source line, so errors show the line of the
  // index.
  Tensor read(CallSite where = CallSite::here()) const {
    return get_index(target_, index_, where.known() ? where : index_[0].where());
  }
  operator Tensor() const { return read(); }
  const TensorSlice& operator=(const Arg& value) const {
    set_index(target_, index_, value, ScatterMode::kSet, value.where());
    return *this;
  }
  const TensorSlice& operator=(const TensorSlice& other) const { return *this = Arg(other.read()); }
  // Adds `value` at every index. For a repeated index, `value` is added once per occurrence.
  const TensorSlice& operator+=(const Arg& value) const { return update(value, ScatterMode::kAdd); }
  const TensorSlice& operator-=(const Arg& value) const;
  const TensorSlice& operator*=(const Arg& value) const {
    return update(value, ScatterMode::kMultiply);
  }
  template <class T>
  T item(CallSite where = CallSite::here()) const {
    return read(where).item<T>(where);
  }

 private:
  const TensorSlice& update(const Arg& value, ScatterMode mode) const {
    set_index(target_, index_, value, mode, value.where());
    return *this;
  }
  Tensor& target_;
  Index index_;
};

template <class... I>
TensorSlice Tensor::at(const IndexItem& first, const I&... more) & {
  return TensorSlice(*this, Index{first, IndexItem(more)...});
}
template <class... I>
Tensor Tensor::at(const IndexItem& first, const I&... more) const& {
  return get_index(*this, Index{first, IndexItem(more)...}, first.where());
}
template <class... I>
Tensor Tensor::at(const IndexItem& first, const I&... more) && {
  return get_index(*this, Index{first, IndexItem(more)...}, first.where());
}

}  // namespace etude
