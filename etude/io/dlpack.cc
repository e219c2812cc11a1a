// SPDX-License-Identifier: Apache-2.0
#include "etude/io/dlpack.h"

#include <cstring>
#include <memory>
#include <vector>

#include <dlpack/dlpack.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/host_door.h"

namespace etude {
namespace {

constexpr uint8_t kDlBool = 6;  // since DLPack 0.8

std::pair<uint8_t, uint8_t> code_and_bits(DType dtype) {
  const auto bits = static_cast<uint8_t>(itemsize(dtype) * 8);
  if (dtype == kBool) return {kDlBool, bits};
  if (dtype == kBFloat16) return {static_cast<uint8_t>(kDLBfloat), bits};
  if (is_complex(dtype)) return {static_cast<uint8_t>(kDLComplex), bits};
  if (is_differentiable(dtype)) return {static_cast<uint8_t>(kDLFloat), bits};
  const bool is_unsigned = dtype >= kUInt8 && dtype <= kUInt64;
  return {static_cast<uint8_t>(is_unsigned ? kDLUInt : kDLInt), bits};
}

DType dtype_of_foreign(DLDataType type) {
  ETUDE_REQUIRE(type.lanes == 1, "its elements have {} lanes, but must have one", type.lanes);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (code_and_bits(dtype) == std::pair{type.code, type.bits}) return dtype;
  }
  ETUDE_THROW(kInvalidArgument, "its dtype has DLPack code {} and {} bits, which Etude has not",
              type.code, type.bits);
}

const Type* type_of(const DLTensor& t) {
  ETUDE_REQUIRE(
      t.device.device_type == kDLCPU || t.device.device_type == kDLCUDAHost ||
          t.device.device_type == kDLROCMHost,
      "its memory is on a device of DLPack type {}, but must be on the host. Copy it there first",
      static_cast<int>(t.device.device_type));
  const DType dtype = dtype_of_foreign(t.dtype);
  ETUDE_REQUIRE(t.ndim >= 0 && t.ndim <= kMaxRank, "its rank is {}, but must be 0 to {}", t.ndim,
                kMaxRank);
  ETUDE_REQUIRE(t.ndim == 0 || t.shape != nullptr, "it has rank {}, but no shape", t.ndim);
  Shape shape;
  for (int axis = 0; axis < t.ndim; ++axis) {
    ETUDE_REQUIRE(t.shape[axis] >= 0, "the size of axis {} is {}. Sizes are 0 or more", axis,
                  t.shape[axis]);
    shape.push_back(t.shape[axis]);
  }
  const Type* type = intern_type(dtype, shape, {});
  ETUDE_REQUIRE(type->count() == 0 || t.data != nullptr, "it is {}, but has no data",
                type->to_string());
  return type;
}

bool is_compact(const DLTensor& t, const Shape& shape) {
  if (t.strides == nullptr) return true;
  int64_t want = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] != 1 && t.strides[axis] != want) return false;
    want *= shape[axis];
  }
  return true;
}

// Elements in row-major order, from any strides.
void gather(const DLTensor& t, const Shape& shape, const char* from, std::size_t size, char* to) {
  const int rank = shape.rank();
  if (t.strides == nullptr) {
    std::memcpy(to, from, size * static_cast<std::size_t>(shape.count()));
    return;
  }
  std::vector<int64_t> at(static_cast<std::size_t>(rank), 0);
  int64_t offset = 0;  // in elements
  for (int64_t n = shape.count(); n > 0; --n, to += size) {
    std::memcpy(to, from + offset * static_cast<int64_t>(size), size);
    for (int axis = rank; axis-- > 0;) {
      int64_t& i = at[static_cast<std::size_t>(axis)];
      offset += t.strides[axis];
      if (++i < shape[axis]) break;
      offset -= i * t.strides[axis];
      i = 0;
    }
  }
}

// The exported object: the tensor, and room for the sizes that DLManagedTensor points to.
struct Exported {
  Tensor held;
  std::vector<int64_t> sizes, strides;
  DLManagedTensor managed{};
};

void give_back(DLManagedTensor* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

}  // namespace

Tensor from_dlpack(DLManagedTensor* managed, DlpackOptions options, CallSite where) {
  return internal::located("from_dlpack", where, [&] {
    ETUDE_REQUIRE(managed != nullptr, "there is no DLManagedTensor: the pointer is null");
    const DLTensor& t = managed->dl_tensor;
    const Type* type = type_of(t);
    const char* data = static_cast<const char*>(t.data) + t.byte_offset;
    const auto size = static_cast<std::size_t>(itemsize(type->dtype()));
    const bool empty = type->count() == 0;
    const bool compact = empty || is_compact(t, type->shape());
    const bool aligned = empty || reinterpret_cast<uintptr_t>(data) % size == 0;
    if (compact && aligned && !empty && options.copy != true) {
      // The owner comes first: should there be no memory for it, its deleter must not run.
      std::shared_ptr<DLManagedTensor*> owner(new DLManagedTensor*(nullptr),
                                              [](DLManagedTensor** held) {
                                                if (*held != nullptr) give_back(*held);
                                                delete held;
                                              });
      Tensor out = internal::make_tensor_over(type, data, owner);
      *owner = managed;
      return out;
    }
    ETUDE_REQUIRE_CODE(kFailedPrecondition, empty || options.copy != false,
                       "{} cannot be taken over without a copy: its {}. Leave out copy = false",
                       type->to_string(),
                       compact ? "elements are not aligned to their size" : "rows are not compact");
    Tensor out = internal::make_tensor(type);
    if (!empty) {
      gather(t, type->shape(), data, size,
             static_cast<char*>(etude::internal::host_elements_for_writing(out)));
    }
    give_back(managed);
    return out;
  });
}

DLManagedTensor* to_dlpack(const Tensor& x, DlpackOptions options, CallSite where) {
  return internal::located("to_dlpack", where, [&] {
    ETUDE_REQUIRE(x.has_value(), "the tensor is absent: it was moved from, or never given a value");
    auto made = std::make_unique<Exported>();
    made->held = to_dense(x);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, etude::internal::observe(made->held, where),
                       "a tensor of type {} has no value here: it is the result of a call that has "
                       "not run",
                       x.type()->to_string());
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, x.device().is_home() || options.copy.has_value(),
        "the tensor is on {}, and consumers of DLPack read the memory of cpu:0. Pass "
        "x.to(\"cpu:0\"), or copy = true",
        x.device().to_string());
    ETUDE_REQUIRE_CODE(kFailedPrecondition, x.device().is_home() || options.copy != false,
                       "the tensor is on {} and cannot be shared without a copy. Pass copy = true",
                       x.device().to_string());
    const bool is_copied = !x.device().is_home();
    made->held = internal::at_home(made->held);
    if (options.copy == true && !is_copied) {
      const Tensor source = made->held;  // shared, so that asking to write copies
      etude::internal::host_elements_for_writing(made->held);
    }
    const Shape& shape = x.shape();
    made->sizes = shape.to_vector();
    made->strides.assign(made->sizes.size(), 1);
    for (std::size_t axis = made->sizes.size(); axis-- > 1;) {
      made->strides[axis - 1] = made->strides[axis] * made->sizes[axis];
    }
    const auto [code, bits] = code_and_bits(x.dtype());
    DLTensor& t = made->managed.dl_tensor;
    t.data = const_cast<void*>(internal::host_elements(made->held));
    t.device = {kDLCPU, 0};
    t.ndim = shape.rank();
    t.dtype = {code, bits, 1};
    t.shape = made->sizes.data();
    t.strides = made->strides.data();
    made->managed.manager_ctx = made.get();
    made->managed.deleter = [](DLManagedTensor* managed) {
      delete static_cast<Exported*>(managed->manager_ctx);
    };
    return &made.release()->managed;
  });
}

}  // namespace etude
