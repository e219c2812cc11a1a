// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/ops.h"

namespace etude {
namespace {

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }
using List = std::vector<double>;

const Tensor kX(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});

// spec: T11
TEST(Contraction, VecdotConjugatesTheFirstAndBroadcasts) {
  EXPECT_EQ(values(vecdot(kX, Tensor(List{1, 0, 2}))), (List{7, 16}));
  EXPECT_EQ(values(vecdot(kX, kX, {.axis = -2})), (List{17, 29, 45}));
  using Complex = std::complex<double>;
  const Tensor i(std::vector<Complex>{{0, 1}});
  EXPECT_EQ(vecdot(i, i).item<Complex>(), Complex(1, 0));
  EXPECT_EQ(dot(i, i).item<Complex>(), Complex(-1, 0));
}

// spec: T11
TEST(Contraction, DotAndOuter) {
  EXPECT_EQ(dot(Tensor(List{1, 2}), Tensor(List{3, 4})).item<double>(), 11);
  EXPECT_EQ(values(dot(kX, Tensor(List{1, 1, 1}))), (List{6, 15}));
  EXPECT_EQ(dot(kX, full({4, 3, 5}, 1.0)).shape(), (Shape{2, 4, 5}));
  EXPECT_EQ(values(dot(Tensor(2.0), Tensor(List{3, 4}))), (List{6, 8}));
  EXPECT_EQ(values(outer(Tensor(List{1, 2}), Tensor(List{3, 4, 5}))), (List{3, 4, 5, 6, 8, 10}));
}

// spec: T11
TEST(Contraction, TensordotTakesCountsAndAxes) {
  EXPECT_EQ(values(tensordot(kX, kX, 2)), (List{91}));
  EXPECT_EQ(tensordot(kX, kX, 0).shape(), (Shape{2, 3, 2, 3}));
  EXPECT_EQ(values(tensordot(kX, kX, {1, 1})), (List{14, 32, 32, 77}));
  EXPECT_EQ(values(tensordot(kX, kX, {0, 0})), (List{17, 22, 27, 22, 29, 36, 27, 36, 45}));
  EXPECT_EQ(values(tensordot(kX, kX, {0, 1, -2, -1})), (List{91}));
}

// spec: T11
TEST(Contraction, CosinesOfAngles) {
  const Tensor x(List{1, 0, 1, 1, 0, 0}, {3, 2}), y(List{0, 2, 3, 3, 1, 1}, {3, 2});
  const List got = values(cosine_similarity(x, y));
  EXPECT_NEAR(got[0], 0, 1e-15);
  EXPECT_NEAR(got[1], 1, 1e-15);
  EXPECT_EQ(got[2], 0);  // of a zero vector
  EXPECT_NEAR(values(cosine_distance(x, -y))[1], 2, 1e-15);
}

// spec: T11
TEST(Contraction, DistancesOfPointsAndTheirGradientWherePointsAreEqual) {
  const Tensor x(List{0, 0, 3, 4}, {2, 2}), y(List{0, 0, 6, 8, 3, 4}, {3, 2});
  Tape tape;
  Tensor d;
  {
    const TapeContext context(tape);
    tape.watch(x);
    d = cdist(x, y);
  }
  EXPECT_EQ(values(d), (List{0, 10, 5, 5, 5, 0}));
  const List g = values(tape.gradient({&d, 1}, {&x, 1})[0]);
  const List want = {-0.6 - 0.6, -0.8 - 0.8, 0.6 - 0.6, 0.8 - 0.8};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g[i], want[i], 1e-15);
}

}  // namespace
}  // namespace etude
