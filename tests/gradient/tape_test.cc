// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>

#include "etude/autodiff/gradient_tape.h"
#include "etude/base/sanitizers.h"
#include "etude/base/warning.h"
#include "etude/core/buffer.h"
#include "etude/core/context/context.h"
#include "etude/ops.h"
#include "tests/gradient/expect.h"
#include "tests/live_memory.h"
#include "tests/warnings.h"

namespace etude::tape_test {
namespace {

using tests::expect_error;
using tests::expect_values;
using Map = std::map<std::string, Tensor>;

TEST(Tape, NestsForSecondOrder) {  // spec: TP-01, CG-11.b, TP-08.d
  Tensor x = 3.0;
  GradientTape outer, inner;
  outer.watch(x);
  inner.watch(x);
  const Tensor y = x * x;
  const Tensor dy = inner.gradient(y, x);
  expect_values(dy, {6});
  expect_values(outer.gradient(dy, x), {2});
  Variable v(3.0);
  GradientTape tape;
  expect_values(tape.gradient(v * v, v), {6});
}

TEST(Tape, TargetsAndSourcesMayRepeat) {  // spec: TP-02
  Tensor x = 2.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor copy = x, y = 2.0 * x;
  tape.stop();
  expect_values(tape.gradient(x, x), {1});
  expect_values(tape.gradient(copy, x), {1});
  expect_values(tape.gradient(std::vector{y, y}, x), {4});
  const auto both = tape.gradient(y, std::vector{x, x});
  expect_values(both[0], {2});
  expect_values(both[1], {2});
  const std::map<std::string, Map> nested = {{"a", {{"b", x}}}};
  expect_values(tape.gradient(y, nested)["a"]["b"], {2});
}

TEST(Tape, TargetsMayFeedTargets) {  // spec: TP-03, TP-04
  {
    Tensor x = 2.0;
    GradientTape tape;
    tape.watch(x);
    expect_values(tape.gradient(std::vector{x, x * x}, x), {5});
  }
  {
    Tensor x = 3.0, y = 5.0;
    GradientTape tape;
    tape.watch(std::tie(x, y));
    const auto [dx, dy] = tape.gradient(std::vector{x, y, y * y}, std::tie(x, y));
    expect_values(dx, {1});
    expect_values(dy, {11});
  }
  {
    Tensor x = 2.0;
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x, z = y * y;
    expect_values(tape.gradient(std::vector{y, z}, x), {36});
  }
  Tensor x = 3.0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x, z = y * y;
  const auto [dx, dy] = tape.gradient(z, std::tie(x, y));
  expect_values(dx, {108});
  expect_values(dy, {18});
}

struct Pair {
  Tensor used, unused;
};

TEST(Tape, UnconnectedIsNoneOrZero) {  // spec: TP-05.a, TP-05.b
  Tensor x = 3.0, u({{1.0, 2.0}});
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(x, u));
  const Tensor y = x * x;
  tape.stop();
  EXPECT_FALSE(tape.gradient(y, u).has_value());
  const Tensor zero = tape.gradient(y, u, {.unconnected = Unconnected::kZero});
  EXPECT_EQ(zero.type(), u.type());
  expect_values(zero, {0, 0});
  const Pair g = tape.gradient(y, Pair{x, u});
  expect_values(g.used, {6});
  expect_values(g.unused, {0, 0});
}

TEST(Tape, SumsAndSeeds) {  // spec: TP-06, CG-06.a, CG-06.b
  Tensor x = 2.0, y = 2.0;
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(x, y));
  const Tensor wide = x * Tensor({3.0, 4.0}), square = x * x, inverse = 1.0 / x, product = x * y;
  tape.stop();
  expect_values(tape.gradient(wide, x), {7});
  expect_values(tape.gradient(std::vector{square, inverse}, x), {3.75});
  const auto [dx, dy] = tape.gradient(std::vector{product, x}, std::tie(x, y),
                                      {.output_gradients = {Tensor(1.0), Tensor(2.0)}});
  expect_values(dx, {4});
  expect_values(dy, {2});
  expect_values(
      tape.gradient(std::vector{product, x}, x, {.output_gradients = {Tensor(), Tensor(2.0)}}),
      {4});
  expect_error(
      [&] {
        tape.gradient(product, x, {.output_gradients = {x, x}});
      },
      ErrorCode::kInvalidArgument,
      {"output_gradients has 2 entries for 1 targets", "tape_test.cc"});
}

TEST(Tape, IntegersHaveNoGradient) {  // spec: TP-07
  const tests::Warnings heard;
  Tensor i = 3, x = 2.0;
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(i, x));
  const Tensor y = i * i;
  tape.stop();
  for (int k = 0; k < 2; ++k) EXPECT_FALSE(tape.gradient(x * x, i).has_value());
  EXPECT_FALSE(tape.gradient(y, x).has_value());
  ASSERT_EQ(heard.told.size(), 1U);
  EXPECT_NE(heard.told[0].find("a source is int32"), std::string::npos) << heard.told[0];
  expect_error([&] { tape.gradient(Tensor(), x); }, ErrorCode::kInvalidArgument,
               {"target 0 is nothing. Does the loss function return its value?"});
}

TEST(Tape, IsUsedUpUnlessPersistent) {  // spec: TP-08.a, TP-08.b, TP-09.a, CG-06.c
  Tensor x = 3.0, y = 5.0;
  GradientTape once;
  once.watch(x);
  const Tensor square = x * x;
  EXPECT_TRUE(once.recording());
  once.gradient(square, x);
  EXPECT_FALSE(once.recording());
  expect_error([&] { once.gradient(square, x); }, ErrorCode::kFailedPrecondition,
               {"used up", ".persistent = true", "tape_test.cc"});
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(x, y));
  const Tensor z = x * x + x * y;
  for (int k = 0; k < 2; ++k) {
    expect_values(tape.gradient(z, y), {3});
    expect_values(tape.gradient(z, x), {11});
  }
}

TEST(Tape, HigherOrderInOneScope) {  // spec: TP-10.a
  Tensor x = 3.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x * x;
  const Tensor d1 = tape.gradient(y, x), d2 = tape.gradient(d1, x), d3 = tape.gradient(d2, x);
  expect_values(d1, {27});
  expect_values(d2, {18});
  expect_values(d3, {6});
  EXPECT_FALSE(tape.gradient(d3, x).has_value());
}

TEST(Tape, WatchingIsPerTape) {  // spec: TP-11, CG-05.a
  Tensor x = 3.0;
  GradientTape one, other;
  const Tensor early = x * x;
  one.watch(x);
  one.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(one.size(), 1U);
  one.watch(y);
  EXPECT_FALSE(other.gradient(y, x).has_value());
  const auto grads = one.gradient(std::vector{y, early}, x);
  expect_values(grads, {6});
}

TEST(Tape, Variables) {  // spec: TP-12.a, TP-12.c, TP-12.d, TP-17.a, TP-18.a
  Variable v(3.0), still(4.0, {.trainable = false});
  GradientTape off({.watch_variables = false}), tape;
  off.watch(still);
  const Tensor y = v * v * still;
  v.assign(10.0);
  EXPECT_EQ(tape.watched_variables().size(), 1U);
  EXPECT_EQ(tape.watched_variables()[0].ref(), v.ref());
  EXPECT_FALSE(off.gradient(y, v).has_value());
  const auto [dv, dstill] = tape.gradient(y, std::tie(v, still));
  expect_values(dv, {24});
  EXPECT_FALSE(dstill.has_value());
  EXPECT_EQ(tape.watched_variables().size(), 1U);
  GradientTape again;
  again.watch(still);
  expect_values(again.gradient(still * still, still), {8});

  Tensor x = 2.0;
  GradientTape cut;
  cut.watch(x);
  v.assign(x * 2);
  EXPECT_FALSE(cut.gradient(v * 3, x).has_value());
}

TEST(Tape, KeepsValuesAsTheyWere) {  // spec: TP-17.c, TP-18.b
  Tensor x = 3.0;
  const Tensor old = x;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  x += 1;
  expect_values(tape.gradient(y, old), {6});
}

TEST(Tape, PausesStopsAndResets) {  // spec: TP-13, TP-14.a, TP-14.b
  Tensor x = 3.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor y;
  {
    const auto pause = tape.pause();
    EXPECT_FALSE(tape.recording());
    y = x * x;
  }
  const Tensor z = y + x;
  expect_values(tape.gradient(z, x), {1});
  expect_error([&] { tape.start(); }, ErrorCode::kFailedPrecondition, {"recording already"});
  tape.stop();
  tape.start();
  expect_values(tape.gradient(z * x, x), {15});
  tape.reset();
  EXPECT_EQ(tape.size(), 0U);
  EXPECT_FALSE(tape.gradient(z, x).has_value());
}

TEST(Tape, AnExceptionLeavesNoTape) {  // spec: TP-14.c
  try {
    GradientTape tape;
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(ContextStack::is_eager());
}

TEST(Tape, ChainsEndAtPredicatesAndCasts) {  // spec: TP-15.a, TP-16.a
  Tensor x = -2.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = bool(x > 0) ? x : -x;
  const Tensor mask = astype(x > Tensor(-5.0), kFloat32);
  const Tensor host = Tensor(x.item<float>() * 2);
  const Tensor whole = astype(astype(x, kInt32), kFloat32) * 2.0;
  tape.stop();
  expect_values(tape.gradient(y, x), {-1});
  EXPECT_FALSE(tape.gradient(mask, x).has_value());
  EXPECT_FALSE(tape.gradient(host, x).has_value());
  EXPECT_FALSE(tape.gradient(whole, x).has_value());
  EXPECT_NE(tape.explain(whole, x).find("last dependent value: astype(int32) at "),
            std::string::npos)
      << tape.explain(whole, x);
  EXPECT_NE(tape.explain(whole, x).find("tape_test.cc"), std::string::npos);
}

TEST(Tape, SharedNodesRunOnce) {  // spec: TP-19.a
  Tensor x = 3.0;
  GradientTape tape;
  tape.watch(x);
  Tensor y = x * x;
  expect_values(tape.gradient(y * y + y, x), {114});
  GradientTape doubling;
  doubling.watch(x);
  Tensor d = x;
  for (int i = 0; i < 30; ++i) d = d + d;
  EXPECT_EQ(doubling.size(), 30U);
  expect_values(doubling.gradient(d, x), {1073741824.0});
}

TEST(Tape, LongChainsDoNotRecurse) {  // spec: TP-20, D75.d
  Tensor x = 1.0;
  {
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = y + x;
    expect_values(tape.gradient(y, x), {100001});
  }
  GradientTape tape;
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y * x;
  EXPECT_EQ(tape.size(), 100000U);
  y.reset();  // the whole chain dies at once
  EXPECT_EQ(tape.size(), 0U);
}

TEST(Tape, DiscardedCallsLeaveNothing) {  // spec: TP-21
  Tensor x({{1.0, 2.0}});
  GradientTape tape;
  tape.watch(x);
  const int64_t before = tests::live_tensors();
  for (int i = 0; i < 100000; ++i) exp(x * x);
  EXPECT_LE(tape.size(), 2U);  // the last ones may still be there
  EXPECT_LE(tests::live_tensors(), before + 3);
}

TEST(Tape, LiveTensorsBalance) {  // spec: CG-08.a, CG-08.b, CG-08.d, CG-09.a, TP-09.b
  Tensor x({{1.0, 2.0}}), w({{3.0, 4.0}});
  {
    GradientTape warm;  // types are made once and stay
    warm.watch(x);
    warm.gradient(exp(x * w) + w, x);
  }
  const int64_t start = tests::live_tensors();
  {
    GradientTape tape;
    tape.watch(x);
    Tensor y = x + w;
    EXPECT_EQ(tests::live_tensors(), start + 1);  // add keeps nothing
    y = exp(y);
    EXPECT_EQ(tests::live_tensors(), start + 1);  // exp keeps its result only
    tape.gradient(y, x);
  }
  EXPECT_EQ(tests::live_tensors(), start);
  {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    EXPECT_THROW(exp(x * w) + Tensor({1.0, 2.0, 3.0}), Error);
    const Tensor y = exp(x * w);
    EXPECT_EQ(tape.size(), 2U);  // without the failed call
    tape.gradient(y, x);
  }
  EXPECT_EQ(tests::live_tensors(), start);
}

TEST(Tape, ExplainsNone) {  // spec: TP-05.c
  Tensor x = 3.0, u = 1.0;
  Variable v(1.0, {.name = "b"}), fixed(1.0, {.name = "c", .trainable = false});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(tape.explain(y, v), "'b' was not read while the tape recorded");
  EXPECT_NE(tape.explain(y, fixed).find("not trainable"), std::string::npos);
  EXPECT_NE(tape.explain(y, u).find("was not watched"), std::string::npos);
  EXPECT_NE(tape.explain(y, Tensor(3)).find("int32"), std::string::npos);
  EXPECT_EQ(tape.explain(y, x), "the source is connected to the target");
  tape.gradient(y, x);
  EXPECT_EQ(tape.explain(y, v), "'b' was not read while the tape recorded");
}

TEST(Tape, ComplexCotangentsAreConjugates) {  // spec: TP-24.a
  Tensor z = std::complex<float>(3, 3);
  GradientTape tape;
  tape.watch(z);
  const Tensor g = tape.gradient(z * z, z);
  EXPECT_EQ(g.item<std::complex<float>>(), std::complex<float>(6, -6));
}

TEST(Tape, RecordsPullbacksByHand) {  // spec: CG-04.b, CG-05.b, TP-23.c
  Tensor x = 1.0, i = 1, y;
  GradientTape tape;
  tape.watch(std::tie(x, i));
  {
    const auto pause = tape.pause();
    y = exp(x);
  }
  const Tensor inputs[] = {x}, outputs[] = {y}, integers[] = {i};
  EXPECT_TRUE(tape.should_record(inputs));
  EXPECT_FALSE(tape.should_record(integers));
  tape.record(integers, outputs, [](auto dy) { return std::vector<Tensor>(dy.begin(), dy.end()); });
  EXPECT_EQ(tape.size(), 0U);
  tape.record(
      inputs, outputs, [](auto dy) { return std::vector<Tensor>(dy.begin(), dy.end()); }, "pass");
  expect_values(tape.gradient(y, x), {1});
  tape.forget(y);

  GradientTape wrong;
  wrong.watch(x);
  const Tensor more[] = {exp(x)};
  wrong.record(
      inputs, more, [](auto) { return std::vector<Tensor>(3); }, "mine");
  expect_error([&] { wrong.gradient(more[0], x); }, ErrorCode::kInvalidArgument,
               {"gradient of mine", "3 gradients for 1 inputs"});
}

TEST(Tape, APersistentOneWarnsOfItsCostOnce) {  // spec: TP-08.c
  const tests::Warnings heard;
  Tensor x = 3.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x * x;
  for (int i = 0; i < 3; ++i) tape.gradient(y, x);
  ASSERT_EQ(heard.told.size(), 1U);
  EXPECT_NE(heard.told[0].find("costs time and memory"), std::string::npos) << heard.told[0];
}

TEST(Tape, NestsForHigherOrder) {  // spec: TP-10.b
  Tensor x = 3.0;
  GradientTape fourth, third, second, first;
  for (GradientTape* tape : {&fourth, &third, &second, &first}) tape->watch(x);
  const Tensor y = x * x * x;
  const Tensor d1 = first.gradient(y, x), d2 = second.gradient(d1, x), d3 = third.gradient(d2, x);
  expect_values(d1, {27});
  expect_values(d2, {18});
  expect_values(d3, {6});
  EXPECT_FALSE(fourth.gradient(d3, x).has_value());
}

TEST(Tape, WatchesVariablesByHandAndListsThemInOrder) {  // spec: TP-12.b, TP-12.e
  Variable a(2.0, {.name = "a"}), b(3.0, {.name = "b"}), c(4.0, {.name = "c"});
  GradientTape tape({.persistent = true, .watch_variables = false});
  tape.watch(b);
  GradientTape all;
  const Tensor first = c * 1.0, second = first * b;
  const Tensor third = second * a, y = third * b;
  expect_values(tape.gradient(y, b), {48});
  EXPECT_FALSE(tape.gradient(y, a).has_value());
  const std::vector<Variable> read = all.watched_variables();
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].name() + read[1].name() + read[2].name(), "cba");
}

TEST(Tape, ChainsEndAtChoicesOfTheHostAndPositions) {  // spec: TP-15.b, TP-16.c
  Tensor a = 2.0, b = 3.0, c = 5.0, rows({1.0, 4.0, 2.0});
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(a, b, c, rows));
  const std::vector<Tensor> all = {a, b, c};
  const Tensor largest =
      *std::max_element(all.begin(), all.end(), [](auto& s, auto& t) { return bool(s < t); });
  const Tensor place = astype(argmax(rows), kFloat32) * 2.0;
  tape.stop();
  const auto [da, db, dc] = tape.gradient(largest, std::tie(a, b, c));
  EXPECT_FALSE(da.has_value());
  EXPECT_FALSE(db.has_value());
  expect_values(dc, {1});
  EXPECT_FALSE(tape.gradient(place, rows).has_value());
}

// A pullback that counts its runs; cotangents pass through.
struct Counted {
  int* runs;
  std::vector<Tensor> operator()(std::span<const Tensor> dy) const {
    ++*runs;
    return {dy[0] * 2.0};
  }
};

TEST(Tape, DoublingsRunARuleEach) {  // spec: TP-19.b
  Tensor x = 3.0;
  GradientTape tape;
  tape.watch(x);
  int runs = 0;
  Tensor d = x;
  for (int i = 0; i < 30; ++i) {
    Tensor next;
    {
      const auto pause = tape.pause();
      next = d + d;
    }
    tape.record(std::span(&d, 1), std::span(&next, 1), Counted{&runs});
    d = next;
  }
  expect_values(tape.gradient(d, x), {1073741824.0});
  EXPECT_EQ(runs, 30);
}

TEST(Tape, MissingCotangentsArriveAsNone) {  // spec: TP-22.b, CG-07.b
  Tensor x = 3.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor both[2];
  {
    const auto pause = tape.pause();
    both[0] = x * 2.0;
    both[1] = x * 5.0;
  }
  std::vector<bool> seen;
  tape.record(std::span(&x, 1), both, [&](std::span<const Tensor> dy) {
    seen = {dy[0].has_value(), dy[1].has_value()};
    Tensor dx = dy[0].has_value() ? dy[0] * 2.0 : Tensor();
    if (dy[1].has_value()) dx = dx.has_value() ? dx + dy[1] * 5.0 : dy[1] * 5.0;
    return std::vector<Tensor>{dx};
  });
  tape.stop();
  expect_values(tape.gradient(both[1], x), {5});
  EXPECT_EQ(seen, (std::vector<bool>{false, true}));
  expect_values(tape.gradient(both[0], x), {2});
  EXPECT_EQ(seen, (std::vector<bool>{true, false}));
}

TEST(Tape, RecordsAndDifferentiatesExp) {  // spec: CG-04.a
  Tensor x = 1.0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = exp(x);
  EXPECT_EQ(tape.size(), 1U);
  expect_values(tape.gradient(y, x), {std::exp(1.0)});
}

TEST(Tape, RecordsWhatCanHaveAGradient) {  // spec: CG-05.c, CG-05.d
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = ones({2}, {.dtype = dtype});
    GradientTape tape;
    tape.watch(x);
    const bool can = dtype == kFloat16 || dtype == kBFloat16 || dtype == kFloat32 ||
                     dtype == kFloat64 || dtype == kComplex64 || dtype == kComplex128;
    EXPECT_EQ(tape.should_record(std::span(&x, 1)), can) << name(dtype);
  }
  Variable v(2.0);
  GradientTape tape;
  const Tensor read = v.read();
  EXPECT_TRUE(tape.should_record(std::span(&read, 1)));
}

TEST(Tape, FreesRecordsAsItGoes) {  // spec: CG-06.d, V43.b
  for (const bool persistent : {false, true}) {
    Tensor x = 1.0;
    GradientTape tape({.persistent = persistent});
    tape.watch(x);
    const auto token = std::make_shared<int>(0);
    long left = -1;
    Tensor y, z;
    {
      const auto pause = tape.pause();
      y = x * 1.0;
      z = y * 1.0;
    }
    const auto pass = [](std::span<const Tensor> dy) { return std::vector<Tensor>{dy[0]}; };
    tape.record(std::span(&x, 1), std::span(&y, 1), [&, pass](std::span<const Tensor> dy) {
      left = token.use_count();
      return pass(dy);
    });
    tape.record(std::span(&y, 1), std::span(&z, 1),
                [kept = token, pass](std::span<const Tensor> dy) { return pass(dy); });
    tape.stop();
    tape.gradient(z, x);
    EXPECT_EQ(left, persistent ? 2 : 1);  // the rule of z ran before the rule of y
  }
}

TEST(Tape, UnrecordedCallsAndPassedGradientsCostNothing) {  // spec: CG-08.c, CG-08.e, CG-09.b
  Tensor x({{1.0, 2.0}, {3.0, 4.0}}), w({{3.0, 4.0}, {5.0, 6.0}});
  {
    GradientTape warm;  // types are made once and stay
    warm.watch(x);
    warm.gradient(matmul(x * 1.0, w * 1.0) + w, x);
  }
  const int64_t start = tests::live_tensors();
  {
    GradientTape tape;
    tape.watch(x);
    exp(w * w);
    EXPECT_EQ(tests::live_tensors(), start);
    const Tensor y = matmul(x * 1.0, w * 1.0);
    EXPECT_EQ(tests::live_tensors(), start + 3);  // the result and both operands
  }
  EXPECT_EQ(tests::live_tensors(), start);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x + w, seed = ones({2, 2}) * 3.0;
  EXPECT_TRUE(shares_storage(tape.gradient(y, x, {.output_gradients = {seed}}), seed));
}

TEST(Tape, IdsAreNeverReused) {  // spec: CG-10.a, CG-10.b
  Tensor x = 3.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  int reused = 0;
  for (int i = 0; i < 100; ++i) {
    Tensor y = x * 2.0;
    const void* const place = y.ref();
    const Tensor z = exp(y);  // keeps its result only
    y.reset();
    tape.forget(y);
    const Tensor fresh(5.0);  // often lies where y was
    reused += fresh.ref() == place ? 1 : 0;
    EXPECT_FALSE(tape.gradient(fresh, x).has_value());
    expect_values(tape.gradient(z, x), {2 * std::exp(6.0)});
  }
  EXPECT_GT(reused, internal::kHasAddressSanitizer ? -1 : 0);  // it keeps freed memory back
}

}  // namespace
}  // namespace etude::tape_test
