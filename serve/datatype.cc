// SPDX-License-Identifier: Apache-2.0
#include "serve/datatype.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "etude/core/shape.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 13> kNames = {{
    {"BOOL", kBool},
    {"UINT8", kUInt8},
    {"UINT16", kUInt16},
    {"UINT32", kUInt32},
    {"UINT64", kUInt64},
    {"INT8", kInt8},
    {"INT16", kInt16},
    {"INT32", kInt32},
    {"INT64", kInt64},
    {"FP16", kFloat16},
    {"FP32", kFloat32},
    {"FP64", kFloat64},
    {"BF16", kBFloat16},
}};

}  // namespace

std::string_view datatype_name(DType dtype) {
  const auto found = std::ranges::find(kNames, dtype, [](const auto& row) { return row.second; });
  return found == kNames.end() ? std::string_view() : found->first;
}

std::optional<DType> datatype_named(std::string_view datatype) {
  const auto found = std::ranges::find(kNames, datatype, [](const auto& row) { return row.first; });
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::string datatype_names() {
  std::string out;
  for (const auto& [datatype, dtype] : kNames) {
    if (!out.empty()) out += ", ";
    out += datatype;
  }
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

int64_t element_count(const std::vector<int64_t>& shape, DType dtype, std::string_view input) {
  if (shape.size() > static_cast<std::size_t>(kMaxRank)) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' has {} axes, but may have {} at most", input,
           shape.size(), kMaxRank);
  }
  int64_t limit = (int64_t{1} << 62) / itemsize(dtype), count = 1;
  for (const int64_t size : shape) {
    if (size < 0) {
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has shape {}, but the sizes of a request must not be negative", input,
             shape_text(shape));
    }
    if (size > 1) {
      if (count > limit / size) {
        refuse(ErrorCode::kInvalidArgument, "input '{}' has shape {}, which is too large", input,
               shape_text(shape));
      }
      count *= size;
    }
  }
  return std::ranges::find(shape, 0) == shape.end() ? count : 0;
}

Tensor tensor_of_bytes(DType dtype, const std::vector<int64_t>& shape, std::string_view bytes,
                       std::string_view input) {
  const auto needed = static_cast<uint64_t>(element_count(shape, dtype, input)) *
                      static_cast<uint64_t>(itemsize(dtype));
  if (bytes.size() != needed) {
    refuse(ErrorCode::kInvalidArgument,
           "input '{}' has {} bytes of data, but {} of shape {} needs {}", input, bytes.size(),
           datatype_name(dtype), shape_text(shape), needed);
  }
  if (dtype == kBool && std::ranges::any_of(bytes, [](char c) { return c != 0 && c != 1; })) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' is BOOL, but has bytes other than 0 and 1",
           input);
  }
  return with_element(dtype, [&]<class T>(T) {
    return filled_tensor<T>(shape, [&](std::span<T> to) {
      if (!bytes.empty()) std::memcpy(static_cast<void*>(to.data()), bytes.data(), bytes.size());
    });
  });
}

std::string_view bytes_of(const Tensor& x) {
  return with_element(x.dtype(), [&]<class T>(T) {
    const std::span<const T> data = x.data<T>();
    return std::string_view(reinterpret_cast<const char*>(data.data()), data.size_bytes());
  });
}

}  // namespace etude::serve
