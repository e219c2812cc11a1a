// SPDX-License-Identifier: Apache-2.0
#include "etude/io/dlpack.h"

#include <numeric>

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/core/dtype_functions.h"
#include "etude/ops.h"

namespace etude {
namespace {

// A producer of the other side: memory, sizes and a count of how often the deleter ran.
struct Foreign {
  std::vector<float> data;
  std::vector<int64_t> sizes, strides;
  int deleted = 0;
  DLManagedTensor managed{};

  Foreign(std::vector<int64_t> s, std::vector<int64_t> by, std::size_t elements)
      : data(elements), sizes(std::move(s)), strides(std::move(by)) {
    std::iota(data.begin(), data.end(), 0.0f);
    managed.dl_tensor = {.data = data.data(),
                         .device = {kDLCPU, 0},
                         .ndim = static_cast<int>(sizes.size()),
                         .dtype = {kDLFloat, 32, 1},
                         .shape = sizes.data(),
                         .strides = strides.empty() ? nullptr : strides.data(),
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* m) { ++static_cast<Foreign*>(m->manager_ctx)->deleted; };
  }
};

void expect_error(Foreign& foreign, ErrorCode code, std::string_view fragment,
                  DlpackOptions options = {}) {
  try {
    from_dlpack(&foreign.managed, options);
    ADD_FAILURE() << "no error for: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string_view(error.what()).find(fragment), std::string_view::npos)
        << error.what();
    EXPECT_NE(std::string_view(error.what()).find("dlpack_test.cc"), std::string_view::npos);
  }
  EXPECT_EQ(foreign.deleted, 0) << "after an error the memory still belongs to the producer";
}

// spec: T1.c
TEST(Dlpack, ImportsWithoutACopy) {
  Foreign foreign({20, 300}, {}, 6000);
  {
    Tensor x = from_dlpack(&foreign.managed);
    EXPECT_EQ(x.data<float>().data(), foreign.data.data());
    EXPECT_EQ(x.shape(), (Shape{20, 300}));
    EXPECT_EQ(max(x).item<float>(), 5999);
    const Tensor view = reshape(x, {300, 20});
    x.reset();
    EXPECT_EQ(foreign.deleted, 0) << "the view still reads the memory";
    EXPECT_EQ(view.data<float>().data(), foreign.data.data());
  }
  EXPECT_EQ(foreign.deleted, 1);
}

// spec: T1.c
TEST(Dlpack, TheFirstWriteToAnImportCopies) {
  Foreign foreign({4}, {1}, 4);
  Tensor x = from_dlpack(&foreign.managed, {.copy = false});
  const MemoryScope scope;
  x += 10.0;
  EXPECT_EQ(foreign.deleted, 1);
  EXPECT_EQ(foreign.data[3], 3);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{10, 11, 12, 13}));
  Foreign other({4}, {1}, 4);
  Tensor y = from_dlpack(&other.managed);
  y.at(0) = 7.0;
  EXPECT_EQ(other.data[0], 0);
  EXPECT_EQ(y.to_vector<float>()[0], 7);
  Foreign third({4}, {1}, 4);
  const Tensor z = from_dlpack(&third.managed) + 1.0;  // an expiring operand is not reused either
  EXPECT_EQ(third.data[0], 0);
  EXPECT_EQ(third.deleted, 1);
}

// spec: T1.c
TEST(Dlpack, OtherLayoutsAreCopied) {
  Foreign columns({2, 3}, {1, 2}, 6);
  EXPECT_EQ(from_dlpack(&columns.managed).to_vector<float>(),
            (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(columns.deleted, 1);
  Foreign backwards({3}, {-1}, 3);
  backwards.managed.dl_tensor.byte_offset = 8;
  EXPECT_EQ(from_dlpack(&backwards.managed).to_vector<float>(), (std::vector<float>{2, 1, 0}));
  Foreign repeated({2, 2}, {0, 1}, 2);
  EXPECT_EQ(from_dlpack(&repeated.managed).to_vector<float>(), (std::vector<float>{0, 1, 0, 1}));
  Foreign ones({1, 3}, {77, 1}, 3);  // the stride of a size of one means nothing
  EXPECT_EQ(from_dlpack(&ones.managed).data<float>().data(), ones.data.data());
  Foreign odd({2}, {}, 3);
  odd.managed.dl_tensor.byte_offset = 2;
  EXPECT_EQ(from_dlpack(&odd.managed).size(), 2);
  EXPECT_EQ(odd.deleted, 1);
  Foreign empty({0, 3}, {}, 0);
  empty.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(&empty.managed).shape(), (Shape{0, 3}));
  EXPECT_EQ(empty.deleted, 1);
  Foreign scalar({}, {}, 1);
  EXPECT_EQ(from_dlpack(&scalar.managed).item<float>(), 0);
  Foreign copied({2}, {}, 2);
  EXPECT_NE(from_dlpack(&copied.managed, {.copy = true}).data<float>().data(), copied.data.data());
}

// spec: T1.c
TEST(Dlpack, RefusesWhatItCannotRead) {
  Foreign device({2}, {}, 2);
  device.managed.dl_tensor.device = {kDLCUDA, 0};
  expect_error(device, ErrorCode::kInvalidArgument, "must be on the host");
  Foreign dtype({2}, {}, 2);
  dtype.managed.dl_tensor.dtype = {kDLInt, 4, 1};
  expect_error(dtype, ErrorCode::kInvalidArgument, "DLPack code 0 and 4 bits");
  dtype.managed.dl_tensor.dtype = {kDLFloat, 32, 4};
  expect_error(dtype, ErrorCode::kInvalidArgument, "4 lanes");
  Foreign negative({-2}, {}, 2);
  expect_error(negative, ErrorCode::kInvalidArgument, "the size of axis 0 is -2");
  Foreign huge({int64_t{1} << 40, int64_t{1} << 40}, {}, 2);
  expect_error(huge, ErrorCode::kInvalidArgument, "from_dlpack");
  Foreign rank({2}, {}, 2);
  rank.managed.dl_tensor.ndim = 1000;
  expect_error(rank, ErrorCode::kInvalidArgument, "its rank is 1000");
  Foreign absent({2}, {}, 2);
  absent.managed.dl_tensor.data = nullptr;
  expect_error(absent, ErrorCode::kInvalidArgument, "float32[2], but has no data");
  Foreign columns({2, 3}, {1, 2}, 6);
  expect_error(columns, ErrorCode::kFailedPrecondition, "rows are not compact", {.copy = false});
  EXPECT_THROW(from_dlpack(nullptr), Error);
  EXPECT_THROW(to_dlpack(Tensor()), Error);
}

// spec: T1.c
TEST(Dlpack, ExportsAndReadsBackEveryDType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = astype(Tensor({{1, 0, 1}, {0, 1, 1}}), dtype);
    DLManagedTensor* out = to_dlpack(x);
    EXPECT_EQ(out->dl_tensor.data, TensorAccess::data(x)) << name(dtype);
    EXPECT_EQ(out->dl_tensor.strides[0], 3);
    const Tensor back = from_dlpack(out, {.copy = false});
    EXPECT_TRUE(same_value(back, x)) << name(dtype);
  }
}

// spec: T1.c
TEST(Dlpack, AnExportPinsTheOldValue) {
  Tensor x(std::vector<float>(5000, 1.0f));
  DLManagedTensor* out = to_dlpack(x);
  const auto* elements = static_cast<const float*>(out->dl_tensor.data);
  const MemoryScope scope;
  x += 1.0;
  EXPECT_EQ(scope.stats().peak_bytes / (5000 * 4), 1);
  EXPECT_EQ(elements[4999], 1);
  const int64_t before = memory_stats().live_bytes;
  out->deleter(out);
  EXPECT_LE(memory_stats().live_bytes, before - 5000 * 4);
  DLManagedTensor* own = to_dlpack(x, {.copy = true});
  EXPECT_NE(own->dl_tensor.data, TensorAccess::data(x));
  static_cast<float*>(own->dl_tensor.data)[0] = 9;
  EXPECT_EQ(x.data<float>()[0], 2);
  own->deleter(own);
}

}  // namespace
}  // namespace etude
