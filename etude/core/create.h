// SPDX-License-Identifier: Apache-2.0
// tensor(...) makes tensors from numbers, nested literals, host data and other tensors, in a chosen
// dtype. Numbers are rounded once: tensor({{0.1, 0.2}}, {.dtype = kFloat64}). Constructors from a
// shape (zeros, full, arange) are in etude/ops.h.
#pragma once

#include <complex>
#include <optional>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;    // default: as Tensor(value)
  std::optional<Device> device = std::nullopt;  // default: the DeviceScope's, else cpu:0
};

// Makes a tensor from nested literals. throws: kInvalidArgument for ragged nesting, naming the
// level.
Tensor tensor(std::initializer_list<Literal> rows, const TensorOptions& options = {},
              CallSite where = CallSite::here());
// Stacks tensors of equal shape along a new first axis. Differentiable in each tensor.
// throws: kInvalidArgument for an empty list, and if shapes differ.
Tensor tensor(const std::vector<Tensor>& parts, const TensorOptions& options = {},
              CallSite where = CallSite::here());

namespace internal {

Tensor tensor_from_host(const void* values, DType from, int64_t count, const Shape& shape,
                        const TensorOptions& options, CallSite where);

}  // namespace internal

// Makes a scalar tensor from a number.
template <class T>
requires(std::is_arithmetic_v<T>) Tensor
    tensor(T value, const TensorOptions& options = {}, CallSite where = CallSite::here()) {
  if (!options.dtype && !options.device) return Tensor(value);
  TensorOptions known = options;
  if (!known.dtype) known.dtype = Tensor(value).dtype();
  if constexpr (std::is_floating_point_v<T>) {
    const auto real = static_cast<double>(value);
    return internal::tensor_from_host(&real, kFloat64, 1, {}, known, where);
  } else {
    const auto integer = static_cast<int64_t>(value);
    return internal::tensor_from_host(&integer, kInt64, 1, {}, known, where);
  }
}
template <class T>
Tensor tensor(std::complex<T> value, const TensorOptions& options = {},
              CallSite where = CallSite::here()) {
  TensorOptions known = options;
  if (!known.dtype) known.dtype = kComplex64;
  return internal::tensor_from_host(&value, dtype_of<std::complex<T>>, 1, {}, known, where);
}
// Makes a tensor from host data in row-major order. The default shape has one axis.
// throws: kInvalidArgument if the number of elements does not match the shape.
template <class T>
requires(!std::is_same_v<T, bool>) Tensor
    tensor(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {},
           CallSite where = CallSite::here()) {
  return internal::tensor_from_host(values.data(), dtype_of<T>, static_cast<int64_t>(values.size()),
                                    shape, options, where);
}
template <class T>
requires(!std::is_same_v<T, bool>) Tensor
    tensor(const std::vector<T>& values, const TensorOptions& options = {},
           CallSite where = CallSite::here()) {
  return tensor(values, Shape{static_cast<int64_t>(values.size())}, options, where);
}

}  // namespace etude
