// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/ops.h"
#include "etude/ops/test_numbers.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::iota;
using tests::message_of;
using Doubles = std::vector<double>;

template <class F>
std::vector<Tensor> gradients(std::vector<Tensor> inputs, F&& f) {
  Tape tape;
  std::vector<Tensor> targets;
  {
    TapeContext context(tape);
    for (const Tensor& x : inputs) tape.watch(x);
    targets.push_back(f());
  }
  return tape.gradient(targets, inputs);
}

// spec: T5.a
TEST(At, ReadsParts) {
  const Tensor x = iota({3, 4});
  EXPECT_EQ(x.at(1).to_vector<double>(), (Doubles{4, 5, 6, 7}));
  EXPECT_EQ(x.at(-1, 2).item<double>(), 10);
  EXPECT_EQ(x.at(kEllipsis, slice({}, {}, -2)).to_vector<double>(), (Doubles{3, 1, 7, 5, 11, 9}));
  EXPECT_EQ(x.at(kNewAxis, slice(1), kNewAxis).shape(), (Shape{1, 1, 1, 4}));
  EXPECT_EQ(x.at(Tensor({2, 0}), Tensor({1, -1})).to_vector<double>(), (Doubles{9, 3}));
  EXPECT_EQ(x.at(x > 9.0).to_vector<double>(), (Doubles{10, 11}));
  EXPECT_EQ(x.at(slice(5, 2)).shape(), (Shape{0, 4}));
}

// spec: T5.b, V22.d
TEST(At, WritesParts) {
  Tensor x = iota({3, 4});
  x.at(1) = 0.0;
  x.at(kAll, 0) = Tensor(Doubles{7, 8, 9});
  EXPECT_EQ(x.to_vector<double>(), (Doubles{7, 1, 2, 3, 8, 0, 0, 0, 9, 9, 10, 11}));
  Tensor y = iota({3});
  y.at(Tensor({1, 1, 2})) += 10.0;
  EXPECT_EQ(y.to_vector<double>(), (Doubles{0, 21, 12}));
  y.at(y > 20.0) = -1.0;
  EXPECT_EQ(y.to_vector<double>(), (Doubles{0, -1, 12}));
  y.at(0) -= 2;
  y.at(slice({}, {}, -1)) *= Tensor(Doubles{1, 2, 3});
  EXPECT_EQ(y.to_vector<double>(), (Doubles{-6, -2, 12}));
}

// spec: T38
TEST(At, GradientsOfSettingASlice) {
  const Tensor old = iota({4}), v = iota({2});
  const std::vector<Tensor> g = gradients({old, v}, [&] {
    Tensor t = old;
    t.at(slice(1, 3)) = v;
    return sum(t);
  });
  EXPECT_EQ(g[0].to_vector<double>(), (Doubles{1, 0, 0, 1}));
  EXPECT_EQ(g[1].to_vector<double>(), (Doubles{1, 1}));
}

// spec: SL-01, SL-02
TEST(Take, GradientIsSparse) {
  const Tensor v = iota({4, 3});
  const Tensor g = gradients({v}, [&] { return sum(take(v, Tensor({1, 3}))); })[0];
  ASSERT_TRUE(g.slices().has_value());
  EXPECT_EQ(g.slices()->indices.to_vector<int>(), (std::vector<int>{1, 3}));
  EXPECT_EQ(g.slices()->values.to_vector<double>(), Doubles(6, 1));
  EXPECT_EQ(g.slices()->dense_shape, (Shape{4, 3}));
  EXPECT_EQ(g.to_vector<double>(), (Doubles{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  const Tensor twice = gradients({v}, [&] { return sum(take(v, Tensor({1, 1}))); })[0];
  EXPECT_EQ(twice.slices()->indices.to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ(twice.to_vector<double>(), (Doubles{0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 0}));
}

// spec: T5.d, SL-07.b, IM-10.c
TEST(At, ErrorsNameIndexAxisAndSize) {
  Tensor x = iota({3, 4});
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message_of([&] { x.at(0, 4).read(); }), "index 4 is out of range for axis 1 of size 4");
  has(message_of([&] {
        x.at(Tensor({0, -4})).read();
      }),
      "index -4 is out of range for axis 0 of size 3");
  has(message_of([&] {
        x.at(Tensor({0, 9})) = 1.0;
      }),
      "index 9 is out of range for axis 0 of size 3");
  EXPECT_EQ(x.shape(), (Shape{3, 4}));  // the failed write left it alone
  has(message_of([&] { x.at(Tensor({true, false})).read(); }), "the mask has shape [2]");
  has(message_of([&] { x.at(0) = Tensor(Doubles{1, 2, 3}); }), "the value has shape [3]");
  has(message_of([&] { x.at(0) = astype(ones({4}), kComplex64); }), "the value is complex64");
  has(message_of([&] { x.at(0, 0, 0).read(); }), "the shape is [3,4]");
}

// spec: V22.a..c
TEST(At, WritesInPlaceWhenUnshared) {
  Tensor t = zeros({1024, 64});
  const void* before = t.data<float>().data();
  const Tensor row = ones({64}), rows({3, 3, 5});
  const Tensor mask = equal(full({1024}, 1), 1);
  MemoryScope scope;
  t.at(slice(10, 20)) = 1.0;
  t.at(7) = row;
  t.at(slice({}, {}, 2), slice({}, {}, -3)) = 2.0;
  t.at(rows) += row;
  t.at(mask) *= 2.0;
  EXPECT_EQ(t.data<float>().data(), before);
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_LT(scope.stats().peak_bytes,
            64 << 10);  // the list of rows of the mask, not the 256 KB of t
  const Tensor copy = t;
  t.at(0, 0) = -1.0;
  EXPECT_NE(t.data<float>().data(), before);
  EXPECT_EQ(copy.at(0, 0).item<float>(), 4);
  const void* own = t.data<float>().data();
  t.at(1) = 0.0;
  EXPECT_EQ(t.data<float>().data(), own);
}

// spec: V34
TEST(Views, AreValues) {
  Tensor x = zeros({64, 64});
  Tensor flat = reshape(x, -1), part = x.at(slice(32, {})), turned = matrix_transpose(x);
  Tensor wide = broadcast_to(x, {2, 64, 64});
  EXPECT_TRUE(shares_storage(x, flat));
  EXPECT_TRUE(shares_storage(x, part));
  x.at(40) = 1.0;
  flat.at(0) = 2.0;
  part.at(0) = 3.0;
  turned.at(0) = 4.0;
  wide.at(0) = 5.0;
  EXPECT_EQ(sum(x).item<float>(), 64);
  EXPECT_EQ(sum(flat).item<float>(), 2);
  EXPECT_EQ(sum(part).item<float>(), 3 * 64);
  EXPECT_EQ(sum(turned).item<float>(), 4 * 64);
  EXPECT_EQ(sum(wide).item<float>(), 5 * 64 * 64);
}

// spec: T5.c
TEST(At, GradientsOfRepeatedIndices) {
  const Tensor x(Doubles{1, 2, 3}), v(Doubles{5, 0, 7});
  const Tensor at({0, 0, 2});
  const auto by = [&](auto update) {
    return gradients({x, v}, [&] {
      Tensor t = x;
      update(t);
      return sum(t * Tensor(Doubles{1, 10, 100}));
    });
  };
  auto g = by([&](Tensor& t) { t.at(at) = v; });  // the value written last counts
  EXPECT_EQ(g[0].to_vector<double>(), (Doubles{0, 10, 0}));
  EXPECT_EQ(g[1].to_vector<double>(), (Doubles{0, 1, 100}));
  g = by([&](Tensor& t) { t.at(at) += v; });
  EXPECT_EQ(g[0].to_vector<double>(), (Doubles{1, 10, 100}));
  EXPECT_EQ(g[1].to_vector<double>(), (Doubles{1, 1, 100}));
  g = by([&](Tensor& t) { t.at(at) *= v; });  // 1 * 5 * 0, 2, 3 * 7
  EXPECT_EQ(g[0].to_vector<double>(), (Doubles{0, 10, 700}));
  EXPECT_EQ(g[1].to_vector<double>(), (Doubles{0, 5, 300}));
}

TEST(Take, NegativeIndicesCountFromTheEnd) {
  const Tensor v = iota({4, 2});
  const Tensor g = gradients({v}, [&] { return sum(v.at(Tensor({-1, 0}))); })[0];
  ASSERT_TRUE(g.slices().has_value());
  EXPECT_EQ(g.slices()->indices.to_vector<int>(), (std::vector<int>{3, 0}));
  EXPECT_EQ(g.to_vector<double>(), (Doubles{1, 1, 0, 0, 0, 0, 1, 1}));
}

}  // namespace
}  // namespace etude
