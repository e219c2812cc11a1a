// SPDX-License-Identifier: Apache-2.0
// The datatypes of the Open Inference Protocol, and tensors as their bytes. The protocol has no
// complex numbers, and Etude no texts (BYTES).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/float16.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/core/type.h"

namespace etude::serve {

// "FP32" for float32; "" for a complex dtype.
std::string_view datatype_name(DType dtype);
// Empty for a name that Etude has no dtype for.
std::optional<DType> datatype_named(std::string_view datatype);
// "BOOL, UINT8, ..." for messages.
std::string datatype_names();

// "[2,-1]".
std::string shape_text(const std::vector<int64_t>& shape);

// The number of elements. `input` is its name in errors.
// throws: kInvalidArgument for a rank above 16, a negative size, and a number beyond 2^62 bytes.
int64_t element_count(const std::vector<int64_t>& shape, DType dtype, std::string_view input);

// A tensor of little-endian elements in row-major order.
// throws: kInvalidArgument for another number of bytes, and for a bool that is neither 0 nor 1.
Tensor tensor_of_bytes(DType dtype, const std::vector<int64_t>& shape, std::string_view bytes,
                       std::string_view input);
// The elements of a tensor on the host. The tensor must outlive the result.
std::string_view bytes_of(const Tensor& x);

// Calls f(T{}) with the element type of a dtype of the protocol.
// throws: kInvalidArgument for a complex dtype.
template <class F>
auto with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool:
      return f(bool{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kUInt16:
      return f(uint16_t{});
    case DType::kUInt32:
      return f(uint32_t{});
    case DType::kUInt64:
      return f(uint64_t{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  "the dtype " + std::string(name(dtype)) + " has no datatype in the protocol");
  }
}

// A new tensor. fill(std::span<T>) writes all of its elements, which are not initialised.
template <class T, class F>
Tensor filled_tensor(const std::vector<int64_t>& shape, F&& fill) {
  const Tensor out = internal::make_tensor(intern_type(dtype_of<T>, Shape(shape)));
  fill(std::span<T>(static_cast<T*>(internal::new_host_elements(out)),
                    static_cast<std::size_t>(out.size())));
  return out;
}

}  // namespace etude::serve
