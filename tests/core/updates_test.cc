// SPDX-License-Identifier: Apache-2.0
// In-place updates of bits and bools; shapes and dtypes on streams.
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/bit_updates.h"
#include "etude/core/streams.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using Ints = std::vector<int>;

// {a & b, then | c, then ^ d} of bits and of bools.
void expect_updates(const char* mode) {
  Tensor bits({12, 10, -1});
  const Tensor before = bits;
  bits &= Tensor({10, 6, 5});
  EXPECT_EQ(bits.to_vector<int>(), (Ints{8, 2, 5})) << mode;
  bits |= 1;
  EXPECT_EQ(bits.to_vector<int>(), (Ints{9, 3, 5})) << mode;
  bits ^= bits;
  EXPECT_EQ(bits.to_vector<int>(), (Ints{0, 0, 0})) << mode;
  EXPECT_EQ(before.to_vector<int>(), (Ints{12, 10, -1})) << mode;
  Tensor bools({true, true, false});
  bools &= Tensor({true, false, true});
  EXPECT_EQ(bools.to_vector<int>(), (Ints{1, 0, 0})) << mode;
  bools |= Tensor({false, true, false});
  bools ^= true;
  EXPECT_EQ(bools.to_vector<int>(), (Ints{0, 0, 1})) << mode;
  EXPECT_EQ(bools.dtype(), kBool) << mode;
}

// spec: T7.d
TEST(Updates, BitsAndTruthsInPlace) {
  expect_updates("eager");
  {
    const LazyScope lazy;
    expect_updates("lazy");
  }
  const auto staged = function([](Tensor x, const Tensor& y) {
    x &= y;
    x ^= 1;
    return x;
  });
  EXPECT_EQ(staged(Tensor({12, 10}), Tensor({10, 7})).to_vector<int>(), (Ints{9, 3}));
}

TEST(Updates, BitsNeedIntegersOrBools) {
  Tensor x({1.0, 2.0}), bools({true, false});
  const auto kInvalid = ErrorCode::kInvalidArgument;
  tests::expect_error([&] { x &= x; }, kInvalid, {"bitwise_and", "float32", "must be one of"});
  tests::expect_error(
      [&] {
        bools |= Tensor({1, 2});
      },
      kInvalid, {"bitwise_or", "int32", "bool", "keeps its dtype"});
  EXPECT_EQ(x.to_vector<int>(), (Ints{1, 2}));
  EXPECT_EQ(bools.to_vector<int>(), (Ints{1, 0}));
}

TEST(Streams, ShapesAndDTypesPrint) {
  std::ostringstream out;
  out << Shape({2, 3}) << " " << Shape() << " " << kBFloat16 << " " << Tensor({1, 2}).dtype();
  EXPECT_EQ(out.str(), "[2,3] [] bfloat16 int32");
}

}  // namespace
}  // namespace etude
