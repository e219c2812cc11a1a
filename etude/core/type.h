// SPDX-License-Identifier: Apache-2.0
// Interned tensor types: one immutable object per (dtype, shape, device), never freed. Types are
// compared by pointer. The signature of a call is a list of type ids.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "etude/core/device.h"
#include "etude/core/dtype.h"
#include "etude/core/shape.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Tensor;

// Only intern_type makes types. Compare types by pointer. threads: thread-safe. A type is immutable
// except for its abstract tensor, which is published once.
class Type {
 public:
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  int rank() const noexcept { return shape_.rank(); }
  Device device() const noexcept { return device_; }
  int64_t count() const noexcept { return count_; }  // kAny if a size is unknown
  int64_t bytes() const noexcept { return bytes_; }
  uint32_t id() const noexcept { return id_; }  // 1, 2, 3, ... in order of first use
  // Returns the type with this dtype and shape on `device`.
  const Type* on(Device device) const;
  // Dtype and device in one word, for a fast comparison.
  uint32_t dtype_and_device() const noexcept { return dtype_and_device_; }
  // The size of the elements in bytes if they may be in one block with the tensor header: on cpu:0,
  // up to internal::kInlineBytes. Otherwise negative.
  int64_t inline_bytes() const noexcept { return inline_bytes_; }
  // "float32[2,3]".
  std::string to_string() const;
  // The abstract tensor of this type, without elements: for rules that read only the type.
  const Tensor& abstract_tensor() const;
  // The shape that a tensor returns to host code during a trace. Never destroyed.
  const Shape& watched_shape() const noexcept { return watched_shape_; }

 private:
  friend const Type* intern_type(DType, const Shape&, Device);
  Type(DType dtype, const Shape& shape, Device device, uint32_t id);

  DType dtype_;
  Device device_;
  uint32_t id_;
  uint32_t dtype_and_device_;
  int64_t inline_bytes_;
  int64_t count_;
  int64_t bytes_;
  mutable std::atomic<Tensor*> abstract_tensor_{nullptr};
  Shape shape_;
  Shape watched_shape_;
};

// The specification of a tensor that does not exist yet, such as the input of nn::summary.
struct TensorSpec {
  Shape shape;  // sizes may be kAny if the called function allows it
  DType dtype = kFloat32;
};

// Returns the unique Type of this dtype, shape and device. threads: thread-safe.
// throws: kInvalidArgument if the element count exceeds kMaxCount.
const Type* intern_type(DType dtype, const Shape& shape, Device device = {});

// Parses the output of to_string(). A text without a dtype, such as "[2,3]", has the dtype `dtype`.
// throws: kInvalidArgument, quoting the text.
const Type* parse_type(std::string_view text, DType dtype = kFloat32);

}  // namespace etude
