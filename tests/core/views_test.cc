// SPDX-License-Identifier: Apache-2.0
// Slices, reshapes and index assignments are values too: their cost, and that no write shows
// through them.
#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "tests/core/storage.h"

namespace etude {
namespace {

using tests::address;
using tests::first;

constexpr int64_t kRows = 1 << 8, kColumns = 1 << 10;
constexpr int64_t kBytes = kRows * kColumns * 4;

Tensor matrix(double value = 1) { return full(Shape{kRows, kColumns}, value); }

template <class F>
int64_t peak_bytes(F f) {
  const MemoryScope scope;
  f();
  return scope.stats().peak_bytes;
}

// spec: V22.a, V22.b
TEST(Views, SliceAssignmentCostsTheSlice) {
  Tensor t = matrix();
  const void* before = address(t);
  const Tensor row = full(Shape{kColumns}, 5.0);
  EXPECT_LT(peak_bytes([&] { t.at(slice(1, 3)) = row; }), kBytes / 8);
  EXPECT_EQ(address(t), before);
  const Tensor kept = t;
  EXPECT_GE(peak_bytes([&] { t.at(0) = 7; }), kBytes);
  EXPECT_LT(peak_bytes([&] { t.at(0) = 8; }), kBytes / 8);
  EXPECT_EQ(first(kept), 1);
  EXPECT_EQ(first(t), 8);
  EXPECT_EQ(t.at(2, 0).item<float>(), 5);
}

// spec: V22.c, V22.d
TEST(Views, EveryTargetIsWrittenInPlace) {
  Tensor t(std::vector<float>{0, 1, 2, 3, 4, 5});
  const void* before = address(t);
  t.at(-1) = 50;
  t.at(slice({}, {}, 2)) += 10;
  t.at(Tensor({1, 1, 3})) += 1;  // a repeated index counts every time
  t.at(t > 20.0) = -1;
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{10, 3, 12, 4, 14, -1}));
  EXPECT_EQ(address(t), before);
}

// spec: V34, IM-08.a
TEST(Views, PartsAreValues) {
  Tensor t = matrix();
  Tensor flat = reshape(t, {-1}), part = t.at(slice(0, 64)), turned = matrix_transpose(t);
  EXPECT_TRUE(shares_storage(t, flat));
  EXPECT_TRUE(shares_storage(t, part));
  t.at(0, 0) = 9;
  EXPECT_EQ(first(flat), 1);
  EXPECT_EQ(first(part), 1);
  EXPECT_EQ(first(turned), 1);
  flat += 1;
  part.at(0, 0) = 4;
  turned *= 3;
  EXPECT_EQ(first(t), 9);
  EXPECT_EQ(first(flat), 2);
  EXPECT_EQ(first(part), 4);
  EXPECT_EQ(first(turned), 3);
  Tensor row = full(Shape{3}, 1.0);
  Tensor wide = broadcast_to(row, {2, 3});
  wide.at(0, 0) = 5;
  EXPECT_EQ(wide.to_vector<float>(), (std::vector<float>{5, 1, 1, 1, 1, 1}));
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

// spec: IM-10.a, IM-10.b
TEST(Views, IndexForms) {
  const Tensor x(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(x.at(-1, -1).item<float>(), 5);
  EXPECT_EQ(x.at(kEllipsis, 0).to_vector<float>(), (std::vector<float>{0, 3}));
  EXPECT_EQ(x.at(kNewAxis).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(x.at(0, slice({}, {}, 2)).to_vector<float>(), (std::vector<float>{0, 2}));
  EXPECT_EQ(x.at(0, slice({}, {}, -1)).to_vector<float>(), (std::vector<float>{2, 1, 0}));
  EXPECT_EQ(x.at(0, slice(1, 100)).to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(x.at(slice(5, 9)).shape(), (Shape{0, 3}));
  try {
    (void)x.at(0, 3);
    FAIL() << "index 3 is outside";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    const std::string text = error.what();
    for (const char* part : {"3", "axis 1"}) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace etude
