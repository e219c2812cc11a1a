// SPDX-License-Identifier: Apache-2.0
// Templates and low-level access for tensor.h. Include tensor.h, which includes this header at its
// end.
#pragma once

#include <utility>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Low-level access to tensors for contexts and kernels. Not for users.
struct TensorAccess {
  static internal::TensorRep* rep(const Tensor& x) noexcept { return x.rep_; }
  static Tensor adopt(internal::TensorRep* rep) noexcept { return Tensor(rep); }
  // The address of the elements on the device of x; null if x has no elements. Host code reads
  // elements through core/internal/host_door.h.
  static const void* data(const Tensor& x) noexcept { return x.rep_->data; }
  static bool has_elements(const Tensor& x) noexcept { return x.rep_->data != nullptr; }
  // Whether x is the only handle to its elements, so that a write is invisible elsewhere.
  static bool is_unique(const Tensor& x) noexcept {
    const internal::TensorRep* rep = x.rep_;
    return rep->count.load(std::memory_order_acquire) == 1 &&
           (rep->buffer == nullptr || rep->buffer->count.load(std::memory_order_acquire) == 1);
  }
  static bool is_abstract(const Tensor& x) noexcept {
    return x.rep_->data == nullptr && x.rep_->slices == nullptr;
  }
  static bool is_sparse(const Tensor& x) noexcept { return x.rep_->slices != nullptr; }
  // The id of the value, assigned on first use. threads: thread-safe.
  static uint64_t id(const Tensor& x);
  static uint64_t id_or_zero(const Tensor& x) noexcept {
    return x.rep_->id.load(std::memory_order_relaxed);
  }
  // Returns the elements for writing. Copies shared elements first. The value gets a new id.
  static void* writable(Tensor& x);
  // Drops the id of a value that is about to be overwritten.
  static void forget_id(Tensor& x) noexcept;
};

template <class T>
Tensor::Tensor(const std::vector<T>& values, CallSite where)
    : Tensor(values, Shape{static_cast<int64_t>(values.size())}, where) {}

template <class T>
Tensor::Tensor(std::span<const T> values, const Shape& shape, CallSite where) {
  if constexpr (internal::RecordedNumber<T>) {
    using Crossing = internal::NumberCrossing<T>;
    *this = Crossing::tensor(values, shape, dtype_of<typename Crossing::Value>, where);
  } else {
    *this =
        from_host(values.data(), dtype_of<T>, shape, static_cast<int64_t>(values.size()), where);
  }
}

template <class T>
Tensor::Tensor(const std::vector<T>& values, const Shape& shape, CallSite where) {
  if constexpr (std::is_same_v<T, bool>) {  // vector<bool> has no contiguous elements
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    *this = from_host(bytes.data(), kBool, shape, static_cast<int64_t>(bytes.size()), where);
  } else {
    *this = Tensor(std::span<const T>(values), shape, where);
  }
}

template <internal::RecordedNumber S>
Tensor::Tensor(const S& value, CallSite where)
    : Tensor(internal::NumberCrossing<S>::tensor({&value, 1}, Shape{}, kFloat32, where)) {}

template <internal::RecordedNumber S>
Tensor::Tensor(std::initializer_list<S> row, CallSite where)
    : Tensor(internal::NumberCrossing<S>::tensor(
          {row.begin(), row.size()}, Shape{static_cast<int64_t>(row.size())}, kFloat32, where)) {}

template <class T>
T Tensor::item(CallSite where) const {
  if constexpr (internal::RecordedNumber<T>) {
    return internal::NumberCrossing<T>::item(*this, where);
  } else {
    T value{};
    item_into(dtype_of<T>, &value, where);
    return value;
  }
}

template <class T>
std::vector<T> Tensor::to_vector(CallSite where) const {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<uint8_t> bytes = to_vector<uint8_t>(where);
    return {bytes.begin(), bytes.end()};
  } else if constexpr (internal::RecordedNumber<T>) {
    return internal::NumberCrossing<T>::elements(*this, where);
  } else {
    std::vector<T> out(static_cast<std::size_t>(size()));
    convert_to(dtype_of<T>, out.data(), where);
    return out;
  }
}

template <class T>
std::span<const T> Tensor::data(CallSite where) const {
  return {static_cast<const T*>(typed_data(dtype_of<T>, where)), static_cast<std::size_t>(size())};
}

}  // namespace etude
