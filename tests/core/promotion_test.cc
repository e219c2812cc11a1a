// SPDX-License-Identifier: Apache-2.0
// Operands of several dtypes in one call: their common dtype, eagerly, staged, lazily, and in
// derivatives; in-place updates; the strict mode.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/ambient.h"
#include "etude/core/dtype_functions.h"
#include "etude/lazy/lazy.h"
#include "etude/nn/init.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using etude::tests::expect_error;
using Doubles = std::vector<double>;

// While alive, ambient().promotion or ambient().default_dtype is another.
class AmbientScope {
 public:
  explicit AmbientScope(Promotion promotion) { ambient().promotion = promotion; }
  explicit AmbientScope(DType default_dtype) { ambient().default_dtype = default_dtype; }
  AmbientScope(const AmbientScope&) = delete;
  AmbientScope& operator=(const AmbientScope&) = delete;
  ~AmbientScope() {
    ambient().promotion = Promotion::kKinds;
    ambient().default_dtype = kFloat32;
  }
};

void expect_tensor(const Tensor& x, DType dtype, const Doubles& want, const std::string& what) {
  EXPECT_EQ(x.dtype(), dtype) << what << ": " << name(x.dtype());
  EXPECT_EQ(x.to_vector<double>(), want) << what;
}

Tensor masked() { return Tensor({-1.0, 2.0, 3.0}); }

struct Case {
  const char* text;
  std::function<Tensor(const Tensor& x, const Tensor& n)> f;  // of {-1, 2, 3} and int32 {1, 2, 3}
  DType dtype;
  Doubles want;
};
std::vector<Case> cases() {
  return {
      {"mask * x", [](const auto& x, const auto&) { return (x > 0.0) * x; }, kFloat32, {0, 2, 3}},
      {"x - mask", [](const auto& x, const auto&) { return x - (x > 0.0); }, kFloat32, {-1, 1, 2}},
      {"1.0 - mask",
       [](const auto& x, const auto&) { return 1.0 - (x > 0.0); },
       kFloat32,
       {1, 0, 0}},
      {"1 - mask", [](const auto& x, const auto&) { return 1 - (x > 0.0); }, kInt32, {1, 0, 0}},
      {"n * mask", [](const auto& x, const auto& n) { return n * (x > 0.0); }, kInt32, {0, 2, 3}},
      {"n + true", [](const auto&, const auto& n) { return n + true; }, kInt32, {2, 3, 4}},
      {"x + true", [](const auto& x, const auto&) { return x + true; }, kFloat32, {0, 3, 4}},
      {"n * 0.5", [](const auto&, const auto& n) { return n * 0.5; }, kFloat32, {0.5, 1, 1.5}},
      {"n * x", [](const auto& x, const auto& n) { return n * x; }, kFloat32, {-1, 4, 9}},
      {"n == x", [](const auto& x, const auto& n) { return n == x; }, kBool, {0, 1, 1}},
      {"maximum(n, 1.5)",
       [](const auto&, const auto& n) { return maximum(n, 1.5); },
       kFloat32,
       {1.5, 2, 3}},
      {"where",
       [](const auto& x, const auto& n) { return where(x > 0.0, n, 0.5); },
       kFloat32,
       {0.5, 2, 3}},
      {"int64 * float16",
       [](const auto& x, const auto& n) { return astype(n, kInt64) * astype(x, kFloat16); },
       kFloat16,
       {-1, 4, 9}},
      {"n / float16",
       [](const auto& x, const auto& n) { return n / astype(x, kFloat16); },
       kFloat16,
       {-1, 1, 1}},
      {"mask / 2",
       [](const auto& x, const auto&) { return (x > 0.0) / 2; },
       kFloat32,
       {0, 0.5, 0.5}},
      {"sum(mask)", [](const auto& x, const auto&) { return sum(x > 0.0); }, kInt32, {2}},
      {"prod(mask)", [](const auto& x, const auto&) { return prod(x > 0.0); }, kInt32, {0}},
      {"mean(mask)",
       [](const auto& x, const auto&) { return mean(x > 1.0, {.axis = 0}); },
       kFloat32,
       {static_cast<double>(2.F / 3.F)}},
      {"mean(n)", [](const auto&, const auto& n) { return mean(n); }, kFloat32, {2}},
      {"concat",
       [](const auto& x, const auto& n) {
         return concat({n, x});
       },
       kFloat32,
       {1, 2, 3, -1, 2, 3}},
      {"matmul", [](const auto& x, const auto&) { return matmul(x > 0.0, x); }, kFloat32, {5}},
  };
}

// spec: IM-03.c
TEST(Promotion, MixedKindsMeetInTheHigherOneInAllModes) {
  const Tensor x = masked(), n({1, 2, 3});
  for (const Case& c : cases()) {
    expect_tensor(c.f(x, n), c.dtype, c.want, c.text);
    const auto staged = function([&](const Tensor& a, const Tensor& b) { return c.f(a, b); });
    staged(x, n);
    expect_tensor(staged(x, n), c.dtype, c.want, std::string(c.text) + " staged");
    const LazyScope lazy;
    expect_tensor(c.f(x, n), c.dtype, c.want, std::string(c.text) + " lazy");
  }
}

// Every pair of dtypes: the result has the dtype of the higher kind, or of promote() within a kind.
TEST(Promotion, EveryPairOfDTypesMeets) {
  const auto kind = [](DType d) { return d == kBool ? 0 : is_integer(d) ? 1 : 2; };
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      const Tensor x = astype(Tensor({true}), a), y = astype(Tensor({true}), b);
      if (kind(a) == kind(b) && !promote(a, b)) {
        expect_error([&] { concat({x, y}); }, ErrorCode::kInvalidArgument, {"do not promote"});
        continue;
      }
      const DType want = kind(a) == kind(b) ? *promote(a, b) : kind(a) > kind(b) ? a : b;
      const Tensor both = concat({x, y});
      EXPECT_EQ(both.dtype(), want) << name(a) << " and " << name(b);
      EXPECT_EQ((is_complex(want) ? real(both) : both).to_vector<double>(), (Doubles{1, 1}))
          << name(a) << " and " << name(b);
      EXPECT_EQ(result_type(a, y), want) << name(a) << " and " << name(b);
    }
  }
}

TEST(Promotion, NumbersTakeIntegersToTheDefaultDType) {
  const Tensor n({1, 2});
  const AmbientScope wide(kFloat64);
  expect_tensor(n * 0.1, kFloat64, {0.1, 0.2}, "n * 0.1");
  expect_tensor(n / 2, kFloat64, {0.5, 1}, "n / 2");
  expect_tensor(mean(n), kFloat64, {1.5}, "mean(n)");
  expect_tensor(clip(n, {.min = 0.1, .max = astype(Tensor(1), kFloat64)}), kFloat64, {1, 1},
                "clip");
}

TEST(Promotion, TheDefaultDTypeIsThatOfLiteralsAndLayers) {
  const AmbientScope wide(kFloat64);
  expect_tensor(Tensor(0.1), kFloat64, {0.1}, "a number");
  expect_tensor(Tensor({{0.1, 2.0}}), kFloat64, {0.1, 2}, "rows");
  EXPECT_EQ(Tensor({1, 2}).dtype(), kInt32);
  EXPECT_EQ(Tensor(0.5F).dtype(), kFloat32) << "a float says its precision";
  const nn::Dense dense(3, 2);
  EXPECT_EQ(dense.weight.dtype(), kFloat64);
  EXPECT_EQ(dense.bias.dtype(), kFloat64);
  EXPECT_EQ(dense(Tensor({{0.1, 0.2, 0.3}})).dtype(), kFloat64);
  EXPECT_EQ(nn::orthogonal()(Shape{2, 3}).dtype(), kFloat64);
  EXPECT_EQ(nn::LayerNorm(3)(Tensor({{0.1, 0.2, 0.3}})).dtype(), kFloat64);
}

TEST(Promotion, DerivativesHaveTheDTypeOfTheOperand) {
  const Tensor x = masked(), n({1, 2, 3});
  const auto f = [&](const Tensor& a) { return sum((x > 0.0) * a * n); };
  const auto check = [&](const char* mode) {
    expect_tensor(gradient(f, x), kFloat32, {0, 2, 3}, mode);
    const Tensor half = astype(x, kFloat16);
    expect_tensor(gradient([&](const Tensor& a) { return sum(a * x); }, half), kFloat16, {-1, 2, 3},
                  mode);
    expect_tensor(jvp(f, x, Tensor({1.0, 1.0, 1.0})).second, kFloat32, {5}, mode);
    EXPECT_FALSE(gradient([&](const Tensor& a) { return sum(a * x); }, n).has_value()) << mode;
  };
  check("eager");
  expect_tensor(function([&](const Tensor& a) { return gradient(f, a); })(x), kFloat32, {0, 2, 3},
                "staged");
  const LazyScope lazy;
  check("lazy");
}

TEST(Promotion, UpdatesInPlaceKeepTheDTypeOfTheTarget) {
  const auto check = [](const std::string& mode) {
    Tensor x = masked();
    const Tensor mask = x > 0.0;
    x += mask;
    x *= Tensor({2, 2, 2});
    x -= true;
    expect_tensor(x, kFloat32, {-3, 5, 7}, mode);
    x.at(0) = Tensor(4);
    x.at(1) += mask.at(1);
    x.at(2) -= mask.at(2);
    expect_tensor(x, kFloat32, {4, 6, 6}, mode);
    x.at(mask) = 1;
    expect_tensor(x, kFloat32, {4, 1, 1}, mode);
    Tensor n({1, 2, 3});
    n += mask;
    expect_tensor(n, kInt32, {1, 3, 4}, mode);
    const auto kInvalid = ErrorCode::kInvalidArgument;
    expect_error([&] { n += 0.5; }, kInvalid, {"add", "0.5", "truncated to int32"});
    expect_error([&] { n += x; }, kInvalid, {"float32", "int32", "keeps its dtype", "astype"});
    expect_error([&] { n.at(0) = 0.5; }, kInvalid, {"0.5", "truncated to int32"});
    expect_error([&] { n.at(0) = x.at(0); }, kInvalid, {"float32", "int32", "keeps its dtype"});
    expect_error([&] { x += astype(x, kFloat64); }, kInvalid, {"float64", "float32", "keeps"});
    expect_tensor(n, kInt32, {1, 3, 4}, mode + " after errors");
  };
  check("eager");
  const LazyScope lazy;
  check("lazy");
}

// spec: IM-03.a
TEST(Promotion, StrictModeRefusesMixedKinds) {
  const Tensor x = masked(), n({1, 2, 3}), mask = x > 0.0;
  const auto product = function([](const Tensor& a, const Tensor& b) { return a * b; });
  expect_tensor(product(x, n), kFloat32, {-1, 4, 9}, "before");
  {
    const AmbientScope strict(Promotion::kStrict);
    const auto kInvalid = ErrorCode::kInvalidArgument;
    expect_error([&] { n + x; }, kInvalid, {"add", "'x2'", "int32", "float32", "astype"});
    expect_error([&] { mask* x; }, kInvalid, {"bool", "float32", "astype(x1, float32)"});
    expect_error([&] { n + 1.5; }, kInvalid, {"add", "1.5", "int32"});
    expect_error([&] { n + true; }, kInvalid, {"a bool does not adapt to int32"});
    expect_error([&] { product(x, n); }, kInvalid, {"int32", "float32", "astype"});
    expect_error(
        [&] {
          Tensor y = x;
          y += mask;
        },
        kInvalid, {"bool", "keeps its dtype"});
    expect_error([] { result_type(kInt32, kFloat32); }, kInvalid, {"int32", "float32", "astype"});
    expect_tensor(n / x, kFloat32, {-1, 1, 1}, "true division casts integers");
    expect_tensor(x + astype(x, kFloat64), kFloat64, {-2, 4, 6}, "precisions of one kind");
  }
  expect_tensor(product(x, n), kFloat32, {-1, 4, 9}, "after");
}

TEST(Promotion, OpsThatTakeNoSuchDTypeSayWhichOperand) {
  const Tensor mask({true, false}), n({1, 2}), x({1.0, 2.0});
  const auto kInvalid = ErrorCode::kInvalidArgument;
  expect_error([&] { logical_and(mask, n); }, kInvalid, {"'x2' is int32", "one of bool"});
  expect_error([&] { mask + mask; }, kInvalid, {"'x1' is bool", "must be one of"});
  expect_error([&] { x& n; }, kInvalid, {"'x1' is float32", "must be one of"});
}

}  // namespace
}  // namespace etude
