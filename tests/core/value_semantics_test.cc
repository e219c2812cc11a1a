// SPDX-License-Identifier: Apache-2.0
// Mutable value semantics of tensors and of whatever contains them, counted in copies and buffers.
#include <map>
#include <optional>
#include <variant>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "tests/core/storage.h"

namespace etude {
namespace {

using tests::address;
using tests::first;

constexpr int64_t kElements = 1 << 16;  // large enough for a buffer of its own

Tensor large(double value = 1) { return full(Shape{kElements}, value); }

// The memory that f allocates, in units of one large tensor.
template <class F>
int64_t buffers(F f) {
  const MemoryScope scope;
  f();
  return scope.stats().peak_bytes / (kElements * 4);
}

struct Pair {
  Tensor weight, bias;
};

// spec: V1, V20.a
TEST(ValueSemantics, UnsharedUpdatesHappenInPlace) {
  Tensor a = large(), b = large(3);
  const void* before = address(a);
  const MemoryScope scope;
  a += b;
  a *= 2;
  a -= 1;
  a /= b;
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_EQ(scope.stats().peak_bytes / (kElements * 4), 0);
  EXPECT_EQ(address(a), before);
  EXPECT_FLOAT_EQ(first(a), 7.0f / 3);
}

// spec: V20.c, V20.d
TEST(ValueSemantics, IntegersAndMovedOperandsAreUpdatedInPlace) {
  Tensor n = astype(large(), kInt32);
  const void* before = address(n);
  n += 1;
  EXPECT_EQ(address(n), before);
  EXPECT_EQ(n.data<int32_t>()[0], 2);
  Tensor a = large();
  before = address(a);
  a = std::move(a) + large(2);
  EXPECT_EQ(address(a), before);
  EXPECT_EQ(first(a), 3);
}

// spec: V2, V21
TEST(ValueSemantics, WritingASharedTensorCopiesOnce) {
  Tensor a = large();
  const Tensor b = a;
  EXPECT_TRUE(shares_storage(a, b));
  EXPECT_EQ(buffers([&] { a += 1; }), 1);
  EXPECT_EQ(buffers([&] { a += 1; }), 0);
  EXPECT_EQ(first(b), 1);
  EXPECT_EQ(first(a), 3);
}

// spec: V3
TEST(ValueSemantics, OnlyLiveCopiesCost) {
  Tensor a = large();
  {
    const Tensor b = a;
    EXPECT_EQ(buffers([&] { a += 1; }), 1);
  }
  { const Tensor gone = a; }
  EXPECT_EQ(buffers([&] { a += 1; }), 0);
  Tensor c = a;
  c.reset();
  EXPECT_EQ(buffers([&] { a += 1; }), 0);
  Tensor d = a;
  const Tensor moved = std::move(d);
  EXPECT_EQ(buffers([&] { a += 1; }), 1);
}

// spec: V4
TEST(ValueSemantics, TheLastOwnerWritesInPlace) {
  Tensor a = large(), b = a, c = a;
  EXPECT_EQ(buffers([&] { a += 1; }), 1);
  EXPECT_EQ(buffers([&] { b += 2; }), 1);
  EXPECT_EQ(buffers([&] { c += 3; }), 0);
  EXPECT_EQ(first(a) + first(b) + first(c), 9);
}

Tensor increment(Tensor x) {
  x += 1;
  return x;
}

// spec: V5, V13
TEST(ValueSemantics, ParametersByValueCopyUnlessMoved) {
  Tensor a = large();
  EXPECT_EQ(buffers([&] { a = increment(a); }), 1);
  EXPECT_EQ(buffers([&] { a = increment(std::move(a)); }), 0);
  EXPECT_EQ(buffers([&] { a *= 2; }), 0);  // the result of a function is not shared
  EXPECT_EQ(first(a), 6);
}

// spec: V6, V55.a
TEST(ValueSemantics, AStructCopiesTheWrittenFieldOnly) {
  Pair p{large(), large(2)};
  Pair q = p;
  EXPECT_EQ(buffers([&] { q.bias += 1; }), 1);
  EXPECT_TRUE(shares_storage(p.weight, q.weight));
  EXPECT_FALSE(shares_storage(p.bias, q.bias));
  EXPECT_EQ(first(p.bias), 2);
}

// spec: V7, V55.a
TEST(ValueSemantics, ContainersCopyTheWrittenElementOnly) {
  std::vector<Tensor> list = {large(), large(2), large(3)};
  std::vector<Tensor> copy = list;
  EXPECT_EQ(buffers([&] { copy[1] += 1; }), 1);
  EXPECT_TRUE(shares_storage(list[2], copy[2]));
  EXPECT_EQ(first(list[1]), 2);
  std::map<std::string, Tensor> named = {{"w", large()}};
  auto named_copy = named;
  named_copy["w"] += 1;
  EXPECT_EQ(first(named["w"]), 1);
  std::optional<Tensor> maybe = large();
  const std::optional<Tensor> maybe_copy = maybe;
  *maybe += 1;
  EXPECT_EQ(first(*maybe_copy), 1);
}

void deep_increment(Tensor& x, int depth) {
  if (depth == 0)
    x += 1;
  else
    deep_increment(x, depth - 1);
}

// spec: V8
TEST(ValueSemantics, ReferencesThroughCallsCopyNothing) {
  Tensor a = large();
  EXPECT_EQ(buffers([&] { deep_increment(a, 10); }), 0);
  EXPECT_EQ(first(a), 2);
}

void add_both(Tensor& x, Tensor& y) {
  x += y;
  y += x;
}

// spec: V9.c
TEST(ValueSemantics, OneVariableForTwoParametersTakesEffectInOrder) {
  Tensor a = large();
  add_both(a, a);
  EXPECT_EQ(first(a), 4);
  a += a;
  EXPECT_EQ(first(a), 8);
}

// spec: V11
TEST(ValueSemantics, IterationsAndClosuresSeeOldValues) {
  Tensor a = Tensor(std::vector<float>{1, 2, 3});
  float total = 0;
  const Tensor seen = a;  // as a range over a holds it
  for (const float v : seen.data<float>()) {
    a += 10;
    total += v;
  }
  EXPECT_EQ(total, 6);
  const auto closure = [a] { return first(a); };
  a += 1;
  EXPECT_EQ(closure(), 31);
  EXPECT_EQ(first(a), 32);
}

// spec: V26
TEST(ValueSemantics, TemporariesAreReused) {
  const Tensor a = large(), b = large(2), c = large(3);
  Tensor y;
  EXPECT_EQ(buffers([&] { y = (a * b) + c; }), 1);
  EXPECT_EQ(first(y), 5);
  EXPECT_EQ(buffers([&] { y = exp(-((a * b) + c) * a); }), 1);
}

// Under a tape, writes to x = make(source) after y = read(x). Expects `copies` new buffers, and
// that the gradient of y belongs to the old x.
template <class Make, class Read>
void expect_snapshot(const Make& make, const Read& read, int copies, double slope) {
  Tape tape;
  TapeContext context(tape);
  const Tensor source = large(3);
  tape.watch(source);
  Tensor x = make(source);
  const Tensor y = read(x);
  EXPECT_EQ(buffers([&] { x += 1; }), copies);
  const std::vector<Tensor> g = tape.gradient(std::span(&y, 1), std::span(&source, 1));
  EXPECT_EQ(first(g[0]), slope);
}

// spec: V40.a, V40.b
TEST(ValueSemantics, ATapeHoldsSnapshots) {
  expect_snapshot([](const Tensor& s) { return s * 1.0; }, [](const Tensor& x) { return x * x; }, 1,
                  6);
}

// spec: V40.b
TEST(ValueSemantics, AWriteIsInPlaceWhenTheTapeKeptNothing) {
  expect_snapshot([](const Tensor& s) { return s + 1.0; }, [](const Tensor& x) { return x + 1.0; },
                  0, 1);
}

// spec: V41.a
TEST(ValueSemantics, InPlaceOpsAreDifferentiable) {
  Tape tape;
  TapeContext context(tape);
  const Tensor x(std::vector<float>{2, 3});
  tape.watch(x);
  Tensor y = x;
  y *= x;
  y += y;
  const std::vector<Tensor> g = tape.gradient(std::span(&y, 1), std::span(&x, 1));
  EXPECT_EQ(g[0].to_vector<float>(), (std::vector<float>{8, 12}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 3}));
}

// spec: V43.a
TEST(ValueSemantics, NothingIsKeptAfterTheGradient) {
  Tensor w = large(2);
  Tape tape;
  Tensor g;
  {
    TapeContext context(tape);
    tape.watch(w);
    const Tensor y = w * w;
    g = tape.gradient(std::span(&y, 1), std::span(&w, 1))[0];
  }
  EXPECT_EQ(buffers([&] { w -= g; }), 0);
  EXPECT_EQ(first(w), -2);
}

// spec: V58
TEST(ValueSemantics, SwapAndMoveCopyNothing) {
  Pair p{large(), large(2)}, q{large(3), large(4)};
  EXPECT_EQ(buffers([&] { std::swap(p, q); }), 0);
  EXPECT_EQ(first(p.weight), 3);
  Tensor empty = large();
  const Tensor taken = std::move(empty);
  try {
    empty.shape();  // NOLINT(bugprone-use-after-move): the tested use
    FAIL() << "an empty tensor has no shape";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_NE(std::string(error.what()).find("was moved from"), std::string::npos) << error.what();
  }
}

// spec: V59
TEST(ValueSemantics, EqualityOfValuesAndOfStorage) {
  const Tensor a = large(), b = large(), c = a;
  EXPECT_TRUE(same_value(a, b));
  EXPECT_FALSE(shares_storage(a, b));
  EXPECT_TRUE(shares_storage(a, c));
  EXPECT_FALSE(same_value(a, large(2)));
  EXPECT_FALSE(same_value(a, astype(a, kFloat64)));
  EXPECT_FALSE(same_value(a, Tensor()));
}

// spec: V55.b
TEST(ValueSemantics, VariantsCopyWhatIsWritten) {
  std::variant<int, Tensor> v = large();
  const std::variant<int, Tensor> copy = v;
  EXPECT_TRUE(shares_storage(std::get<1>(v), std::get<1>(copy)));
  EXPECT_EQ(buffers([&] { std::get<1>(v) += 1; }), 1);
  EXPECT_EQ(first(std::get<1>(copy)), 1);
  EXPECT_EQ(first(std::get<1>(v)), 2);
}

// spec: V41.b
TEST(ValueSemantics, IndexedWritesAreDifferentiable) {
  Tape tape;
  TapeContext context(tape);
  const Tensor x(std::vector<float>{2, 3});
  tape.watch(x);
  Tensor y = x;
  y *= x;
  y.at(0) = 0;
  const Tensor z = sum(y);
  const std::vector<Tensor> g = tape.gradient(std::span(&z, 1), std::span(&x, 1));
  EXPECT_EQ(g[0].to_vector<float>(), (std::vector<float>{0, 6}));
}

}  // namespace
}  // namespace etude
