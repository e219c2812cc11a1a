// SPDX-License-Identifier: Apache-2.0
// NoDerivative<Tensor> can be used like a tensor, and no derivative flows to it.
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude::constants_test {
namespace {

using Floats = std::vector<float>;

struct Scaled {
  Tensor weight = Tensor({2.0, 3.0});
  NoDerivative<Tensor> scale{Tensor({10.0, 100.0})};
  NoDerivative<double> offset{0.5};
  Tensor operator()(const Tensor& x) const {
    const double twice = offset * 2.0 + offset * offset - offset * offset;  // numbers are numbers
    return scale * (x * weight) + maximum(scale, 50.0) / scale - twice;
  }
};

const Tensor kOnes({1.0, 1.0});
// 10 * 2 + 5 - 1 and 100 * 3 + 1 - 1.
const Floats kValues = {24, 300};

tangent_t<Scaled> slope(const Scaled& s) {
  return gradient([](const Scaled& m) { return sum(m(kOnes)); }, s);
}

TEST(Constants, StandBesideTensors) {
  const Scaled s;
  EXPECT_EQ(s(kOnes).to_vector<float>(), kValues);
  EXPECT_EQ(slope(s)[&Scaled::weight].to_vector<float>(), (Floats{10, 100}));
  EXPECT_EQ((s.scale + s.scale).to_vector<float>(), (Floats{20, 200}));
  EXPECT_EQ((2.0 - s.scale).to_vector<float>(), (Floats{-8, -98}));
  EXPECT_EQ((-s.scale).to_vector<float>(), (Floats{-10, -100}));
  EXPECT_EQ((s.scale > s.weight).to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ(where(s.scale > 50.0, s.scale, kOnes).to_vector<float>(), (Floats{1, 100}));
  Tensor x = kOnes;
  x *= s.scale;
  x.at(0) = sum(s.scale);
  EXPECT_EQ(x.to_vector<float>(), (Floats{110, 100}));
}

TEST(Constants, InGraphsAndLazily) {
  const auto staged = function([](const Scaled& s, const Tensor& x) { return s(x); });
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(staged(Scaled(), kOnes).to_vector<float>(), kValues);
  }
  const LazyScope scope;
  EXPECT_EQ(Scaled()(kOnes).to_vector<float>(), kValues);
  EXPECT_EQ(slope(Scaled())[&Scaled::weight].to_vector<float>(), (Floats{10, 100}));
}

}  // namespace
}  // namespace etude::constants_test
