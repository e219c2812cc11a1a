// SPDX-License-Identifier: Apache-2.0
// Eager execution as a user meets it: literals, dtypes, arithmetic, errors, printing.
#include <cmath>
#include <functional>
#include <sstream>
#include <unordered_set>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/core/context/context.h"
#include "etude/core/create.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using etude::tests::error_of;

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

// spec: IM-01
TEST(Eager, AProductNeedsNoSetUp) {
  const Tensor y = matmul(Tensor({{1.0, 0.0}}), Tensor({{2.0}, {-2.0}}));
  EXPECT_EQ(y.shape(), (Shape{1, 1}));
  EXPECT_EQ(y.dtype(), kFloat32);
  std::ostringstream out;
  out << y;
  expect_parts(out.str(), {"[[2.]]", "shape (1, 1)", "float32"});
}

// The second call finds its kernel in the cache; its operand is given away before the kernel fails.
// spec: IM-12.a
TEST(Eager, ACallFromTheCacheFailsAsTheFirstOne) {
  const Tensor zeros({0, 0, 0});
  floor_divide(Tensor({4, 5, 6}), zeros + 1);
  for (int i = 0; i < 3; ++i) {
    expect_parts(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            floor_divide(Tensor({4, 5, 6}), zeros);
                          }),
                 {"floor_divide: ", "zero", "eager_test.cc"});
  }
}

// spec: IM-02.a
TEST(Eager, LiteralsAndHostDataKeepTheirKinds) {
  const Tensor y = Tensor({1., 2.}) + Tensor({3., 4.});
  EXPECT_EQ(y.dtype(), kFloat32);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_EQ(Tensor(1).dtype(), kInt32);
  EXPECT_EQ(Tensor(1.5).dtype(), kFloat32);
  EXPECT_EQ(Tensor(true).dtype(), kBool);
  EXPECT_EQ(Tensor(int64_t{1} << 33).dtype(), kInt64);
  EXPECT_EQ(Tensor(int64_t{1} << 33).item<int64_t>(), int64_t{1} << 33);
  EXPECT_EQ(Tensor({int64_t{1} << 33, int64_t{2}}).dtype(), kInt64);
  EXPECT_EQ(Tensor(std::vector<double>{1}).dtype(), kFloat64);
}
TEST(Eager, RowsOfOneNumberAreRows) {
  for (const Tensor& row : {Tensor({1.5}), Tensor{1.5}, Tensor({1.5F})}) {
    EXPECT_EQ(row.shape(), Shape({1}));
    EXPECT_EQ(row.dtype(), kFloat32);
  }
  EXPECT_EQ(Tensor({7}).shape(), Shape({1}));
  EXPECT_EQ(Tensor({0}).shape(), Shape({1}));
  EXPECT_EQ(Tensor({7}).dtype(), kInt32);
  EXPECT_EQ(Tensor({true}).dtype(), kBool);
  EXPECT_EQ(Tensor({int64_t{1} << 33}).dtype(), kInt64);
  EXPECT_EQ(Tensor({{1.5}}).shape(), Shape({1, 1}));
  EXPECT_EQ(Tensor({1, 2.5}).dtype(), kFloat32);
}

// spec: IM-03.b
TEST(Eager, NumbersAdaptToTensors) {
  const Tensor n({1, 2}), x({1., 2.});
  EXPECT_EQ((x + 1).dtype(), kFloat32);
  EXPECT_EQ((n + 1).dtype(), kInt32);
  EXPECT_EQ((astype(x, kFloat16) * 0.5).dtype(), kFloat16);
  EXPECT_EQ((n + 1.5).dtype(), kFloat32);
}

// spec: IM-04
TEST(Eager, RaggedNestingIsRefused) {
  expect_parts(error_of(ErrorCode::kInvalidArgument,
                        [] {
                          Tensor({{1}, {2, 3}});
                        }),
               {"not rectangular", "level 1"});
  expect_parts(error_of(ErrorCode::kInvalidArgument,
                        [] {
                          Tensor({{{1}}, {{2}, {3}}});
                        }),
               {"not rectangular", "level 1"});
  expect_parts(error_of(ErrorCode::kInvalidArgument,
                        [] {
                          Tensor({{1}, 2});
                        }),
               {"not rectangular", "level"});
}

// spec: IM-05.a..c
TEST(Eager, DivisionAndWrapping) {
  EXPECT_EQ(floor_divide(Tensor(-7), 2).item<int>(), -4);
  EXPECT_EQ(remainder(Tensor(-7), 3).item<int>(), 2);
  const Tensor half = Tensor(7) / Tensor(2);
  EXPECT_EQ(half.dtype(), kFloat32);
  EXPECT_EQ(half.item<float>(), 3.5f);
  const Tensor bytes = Tensor(std::vector<uint8_t>{200}) + Tensor(std::vector<uint8_t>{100});
  EXPECT_EQ(bytes.to_vector<int>(), (std::vector<int>{44}));
  expect_parts(error_of(ErrorCode::kInvalidArgument, [] { floor_divide(Tensor(1), 0); }),
               {"floor_divide", "zero"});
  expect_parts(error_of(ErrorCode::kInvalidArgument, [] { remainder(Tensor(1), 0); }),
               {"remainder", "zero"});
  EXPECT_TRUE(std::isinf((Tensor(1.0) / 0.0).item<float>()));
  EXPECT_TRUE(std::isnan((Tensor(0.0) / 0.0).item<float>()));
}

// spec: IM-06.a..c
TEST(Eager, ComparisonIsByElementAndIdentityByRef) {
  const Tensor a({1., NAN}), b = a;
  EXPECT_EQ((a == b).to_vector<bool>(), (std::vector<bool>{true, false}));
  std::unordered_set<const void*> refs = {a.ref()};
  EXPECT_TRUE(refs.contains(b.ref()));
  EXPECT_FALSE(refs.contains(Tensor({1., 2.}).ref()));
  static_assert(!std::is_default_constructible_v<std::hash<Tensor>>);
  expect_parts(error_of(ErrorCode::kInvalidArgument,
                        [&] {
                          static_cast<void>(a == Tensor({1., 2., 3.}));
                        }),
               {"equal", "2", "3"});
}

// spec: IM-07.a
TEST(Eager, TruthNeedsOneElement) {
  EXPECT_TRUE(static_cast<bool>(Tensor({2.})));
  EXPECT_FALSE(static_cast<bool>(Tensor(0)));
  expect_parts(error_of(ErrorCode::kInvalidArgument,
                        [] {
                          (void)static_cast<bool>(Tensor({1., 2.}));
                        }),
               {"ambiguous", "any", "all"});
  error_of(ErrorCode::kInvalidArgument,
           [] { (void)static_cast<bool>(Tensor(std::vector<float>{})); });
}

// spec: IM-08.a, IM-08.b
TEST(Eager, HostDataIsCopied) {
  std::vector<float> host = {1, 2};
  Tensor x(host);
  host[0] = 9;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  const std::vector<float> seen = x.to_vector<float>();
  x += 1;
  EXPECT_EQ(seen, (std::vector<float>{1, 2}));
  const Tensor y = x;
  x += 1;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 3}));
}

// spec: IM-09
TEST(Eager, EqualConstantsAreDistinctForATape) {
  const auto slope = [](const Tensor& c1, const Tensor& c2) {
    Tape tape;
    const TapeContext context(tape);
    tape.watch(c1);
    const Tensor y = c1 + c2;
    return tape.gradient(std::span(&y, 1), std::span(&c1, 1))[0].item<float>();
  };
  const Tensor c1(1.0), c2(1.0);
  EXPECT_EQ(slope(c1, c2), 1);
  EXPECT_EQ(slope(c1, c1), 2);
  const Tensor copy = c1;
  EXPECT_EQ(slope(c1, copy), 2);
}

// spec: IM-10.d
TEST(Eager, EmptyOperandsHaveNeutralResults) {
  const Tensor none(std::vector<float>{});
  EXPECT_EQ(sum(none).item<float>(), 0);
  EXPECT_EQ(prod(none).item<float>(), 1);
  EXPECT_TRUE(std::isnan(mean(none).item<float>()));
  const Tensor y = matmul(full(Shape{2, 0}, 1.0), full(Shape{0, 3}, 1.0));
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(6, 0));
}

// spec: IM-12.a, IM-12.b
TEST(Eager, AFailureLeavesNothingBehind) {
  const Tensor a = full(Shape{2, 3}, 1.0);
  Tape tape;
  const TapeContext context(tape);
  tape.watch(a);
  const std::string text = error_of(ErrorCode::kInvalidArgument, [&] { matmul(a, a); });
  expect_parts(text, {"matmul", "[2,3]", "'x'", "'y'", "eager_test.cc:"});
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_EQ(sum(a * a).item<float>(), 6);
}

// spec: IM-14.a, IM-14.b
TEST(Eager, PrintingNeverThrows) {
  EXPECT_EQ(Tensor({{1, 2}, {3, 4}}).to_string(),
            "Tensor([[1, 2],\n        [3, 4]], shape=[2,2], dtype=int32, device=cpu:0)");
  const std::string large = full(Shape{1000, 1000}, 1.0).to_string();
  EXPECT_LT(large.size(), 2000u);
  expect_parts(large, {"...", "1000"});
  EXPECT_FALSE(Tensor().to_string().empty());
  expect_parts(internal::make_abstract(intern_type(kFloat32, {2})).to_string(), {"float32"});
  EXPECT_FALSE(Tensor(std::vector<float>{}).to_string().empty());
}

// spec: T1.b
TEST(Create, InTheDTypeThatIsAskedFor) {
  const Tensor exact = tensor({{0.1, 0.2}, {0.3, 0.4}}, {.dtype = kFloat64});
  EXPECT_EQ(exact.to_vector<double>(), (std::vector<double>{0.1, 0.2, 0.3, 0.4}));
  EXPECT_EQ(exact.shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor({1, 2}).dtype(), kInt32);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), kFloat32);
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(tensor({large}, {.dtype = kUInt64}).item<int64_t>(), large);
  EXPECT_EQ(tensor(0.1, {.dtype = kFloat64}).item<double>(), 0.1);
  EXPECT_EQ(tensor(0.1).dtype(), kFloat32);
  EXPECT_EQ(tensor(3, {.dtype = kBool}).dtype(), kBool);
  const std::complex<double> z(0.1, -0.2);
  EXPECT_EQ(tensor(z, {.dtype = kComplex128}).item<std::complex<double>>(), z);
  EXPECT_EQ(tensor(std::vector<double>{1, 2, 3, 4}, {2, 2}, {.dtype = kInt8}).to_string(),
            "Tensor([[1, 2],\n        [3, 4]], shape=[2,2], dtype=int8, device=cpu:0)");
  EXPECT_EQ(tensor(std::vector<float>{1, 2}).dtype(), kFloat32);
  const Tensor a = 1.0, b = 2.0;
  EXPECT_EQ(tensor({a, b, a * b}).to_vector<float>(), (std::vector<float>{1, 2, 2}));
  EXPECT_EQ(tensor({Tensor({1, 2}), Tensor({3, 4})}, {.dtype = kInt64}).shape(), (Shape{2, 2}));
  for (const auto& bad : {std::function([] {
                            tensor({{1, 2}, {3}}, {.dtype = kFloat64});
                          }),
                          std::function([] {
                            tensor(std::vector<float>{1, 2}, {3});
                          }),
                          std::function([] { tensor(std::vector<Tensor>{}); }), std::function([] {
                            tensor({Tensor({1.0}), Tensor(1.0)});
                          })}) {
    tests::expect_error(bad, ErrorCode::kInvalidArgument, {"eager_test.cc"});
  }
}

// spec: IM-02.b
static_assert(!std::is_constructible_v<Tensor, std::string> &&
              !std::is_constructible_v<Tensor, const char*>);

// spec: IM-07.b, IM-07.c
TEST(Eager, ScalarsHaveNoPartsAndIndicesAreIntegers) {
  const Tensor scalar(2.0), x({1.0, 2.0, 3.0});
  expect_parts(tests::message_of([&] { scalar.at(0); }), {"eager_test.cc", "[]"});
  expect_parts(tests::message_of([&] { x.at(Tensor(1.5)); }), {"float32", "eager_test.cc"});
}

// spec: T3.e
TEST(Eager, AnItemIsOfOneElement) {
  EXPECT_EQ(Tensor({{2.5}}).item<float>(), 2.5F);
  expect_parts(error_of(ErrorCode::kInvalidArgument,
                        [] {
                          ones({2, 3}).item<float>();
                        }),
               {"item", "[2,3]", "eager_test.cc"});
}

}  // namespace
}  // namespace etude
