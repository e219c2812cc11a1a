// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/variable.h"

#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "tests/gradient/expect.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::expect_values;

TEST(Variable, OwnsItsStorage) {  // spec: VR-01
  const Tensor x({{1.0, 2.0}});
  const int64_t before = tests::live_tensors();
  for (int i = 0; i < 10000; ++i) Variable(x, {.name = "same"});
  EXPECT_EQ(tests::live_tensors(), before);
  Variable a(x, {.name = "n"}), b(x, {.name = "n"});
  const Variable alias = a;
  a.assign_add(1.0);
  expect_values(alias.read(), {2, 3});
  expect_values(b.read(), {1, 2});
  expect_values(x, {1, 2});
  EXPECT_EQ(alias.ref(), a.ref());
  EXPECT_NE(a.ref(), b.ref());
}

TEST(Variable, ReadsAreSnapshots) {  // spec: VR-02.a, VR-04.a
  Variable v(1.0);
  const Tensor r = v.read();
  const Tensor updated = v.assign_add(1.0);
  expect_values(r, {1});
  expect_values(updated, {2});
  expect_values(v.assign_sub(0.5), {1.5});
  expect_values(v.assign(Tensor(7.0)), {7});
  expect_values(updated, {2});
}

TEST(Variable, UpdatesInPlaceWithoutSnapshots) {  // spec: V48
  Variable v(Tensor(std::vector<float>(10000, 1.0f)));
  const Tensor by(std::vector<float>(10000, 2.0f));
  v.assign_add(by);
  const MemoryScope scope;
  v.assign_add(by);
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_LT(scope.stats().peak_bytes, 10000);
}

TEST(Variable, CopiesOnceForASnapshot) {  // spec: V48
  constexpr int64_t kBytes = 5000 * 4;
  Variable v(Tensor(std::vector<float>(5000, 1.0f)));
  const Tensor by(std::vector<float>(5000, 2.0f));
  {
    const Tensor snapshot = v.read();
    const MemoryScope scope;
    v.assign_add(by);  // a new buffer, as the snapshot keeps the old one
    v.assign_add(by);
    v.at(slice(0, 2)).assign_add(1.0);
    EXPECT_EQ(scope.stats().peak_bytes / kBytes, 1);
    EXPECT_EQ(snapshot.data<float>()[0], 1);
  }
  expect_values(v.at(slice(0, 3)), {6, 6, 5});
  const void* address = v.read().data<float>().data();
  const MemoryScope scope;
  v.assign_add(by);
  v.assign_sub(by);
  v.at(slice(1, 4)) = 7.0;
  EXPECT_LT(scope.stats().peak_bytes, kBytes);
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_EQ(v.read().data<float>().data(), address);
}

TEST(Variable, PartsAreAssigned) {  // spec: VR-05
  Variable v(Tensor({1.0, 2.0, 3.0, 4.0}), {.name = "table"});
  const Tensor before = v.read();
  v.at(slice(1, 3)) = Tensor({7.0, 8.0});
  expect_values(v.read(), {1, 7, 8, 4});
  expect_values(before, {1, 2, 3, 4});
  expect_values(v.at(Tensor({0, 0, 3})).assign_add(Tensor({1.0, 2.0, 5.0})), {4, 7, 8, 9});
  expect_values(v.at(Tensor({1, 1})).assign_sub(1.0), {4, 5, 8, 9});
  expect_values(v.at(Tensor({true, false, false, true})).assign(0.0), {0, 5, 8, 0});
  v.at(0) = v.at(1);
  expect_values(v.read(), {5, 5, 8, 0});
  expect_error([&] { v.at(7) = 1.0; }, ErrorCode::kOutOfRange, {"7", "4", "variable_test.cc"});
  expect_error(
      [&] {
        v.at(slice(0, 2)) = Tensor({1.0, 2.0, 3.0});
      },
      ErrorCode::kInvalidArgument, {"[3]", "[2]", "variable_test.cc"});
}

TEST(Variable, RefusesOtherTypes) {  // spec: VR-03.a, VR-03.b
  Variable v(Tensor({{1.0, 2.0}}), {.name = "w"});
  expect_error(
      [&] {
        v.assign(Tensor({1, 2}));
      },
      ErrorCode::kInvalidArgument,
      {"assign: Variable 'w' is float32, but the value is int32", "variable_test.cc"});
  expect_error(
      [&] {
        v.assign(Tensor({1.0, 2.0}));
      },
      ErrorCode::kInvalidArgument,
      {"Variable 'w' has shape [1,2], but the value has shape [2]", "kAny"});
  expect_error(
      [&] {
        v.assign_add(Tensor({{1.0}, {2.0}}));
      },
      ErrorCode::kInvalidArgument, {"[2,1]"});
  expect_values(v.read(), {1, 2});
  Variable open(Tensor({{1.0, 2.0}}), {.shape = Shape{kAny, 2}});
  open.assign(Tensor({{1.0, 2.0}, {3.0, 4.0}}));
  EXPECT_EQ(open.shape(), (Shape{2, 2}));
  EXPECT_EQ(open.read().shape(), (Shape{2, 2}));
  EXPECT_THROW(open.assign(Tensor({{1.0}})), Error);
}

TEST(Variable, MustHaveAValue) {  // spec: VR-06.a
  Variable empty(Tensor(), {.name = "late", .dtype = kFloat32, .shape = Shape{2}});
  EXPECT_FALSE(empty.initialized());
  expect_error([&] { empty.read(); }, ErrorCode::kFailedPrecondition,
               {"Variable 'late'", "has no value yet", "variable_test.cc"});
  empty.assign(Tensor({1.0, 2.0}));
  expect_values(empty.read(), {1, 2});
  const Variable moved = std::move(empty);
  expect_error([&] { empty.read(); }, ErrorCode::kFailedPrecondition, {"this Variable is gone"});
  expect_error([] { Variable none{Tensor()}; }, ErrorCode::kInvalidArgument,
               {"needs a dtype and a shape"});
}

TEST(Variable, UpdatesAreAtomic) {  // spec: VR-07, V53.c
  Variable v(0.0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        v.assign_add(1.0);
        const float seen = v.read().item<float>();
        EXPECT_EQ(seen, static_cast<float>(static_cast<int>(seen)));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  expect_values(v.read(), {2000});
}

TEST(Variable, ActsAsATensor) {  // spec: VR-08.a, VR-08.c, SC-04.c
  Variable v(2.0), w(3.0);
  expect_values(v * w + 1.0, {7});
  EXPECT_TRUE(bool(v == Tensor(2.0)));
  EXPECT_TRUE(bool(w > v));
  const Tensor t = v;
  expect_values(t, {2});
  int runs = 0;
  Variable lazy([&] { return Tensor(++runs); }, {.dtype = kFloat64});
  EXPECT_EQ(runs, 0);
  EXPECT_TRUE(lazy.initialized());
  EXPECT_EQ(lazy.read().dtype(), kFloat64);
  lazy.read();
  EXPECT_EQ(runs, 1);
  Variable restored([&] { return Tensor(++runs * 1.0); });
  restored.assign(5.0);
  expect_values(restored.read(), {5});
  EXPECT_EQ(runs, 1);
}

TEST(Variable, PrintsAlways) {  // spec: IM-14.b
  Variable v({{1.0, 2.0}}, {.name = "w"}), empty(Tensor(), {.dtype = kFloat32, .shape = Shape{2}});
  std::ostringstream out;
  out << v << empty;
  const Variable moved = std::move(v);
  out << v;
  EXPECT_EQ(out.str(),
            "Variable(w, [[1., 2.]], shape=[1,2], dtype=float32, device=cpu:0)"
            "Variable(<not initialised>)Variable(<moved from>)");
}

TEST(Variable, MovesAlongItsTangent) {  // spec: D2.a
  Variable v(Tensor({1.0, 2.0}));
  static_assert(std::is_same_v<tangent_t<Variable>, Tensor>);
  expect_values(zero_tangent(v), {0, 0});
  move(v, Tensor({10.0, 20.0}));
  expect_values(v.read(), {11, 22});
}

TEST(Variable, IsAKeyByItsRefOnly) {  // spec: VR-08.b
  static_assert(!std::is_default_constructible_v<std::hash<Variable>>);
  const Variable a(1.0), b(1.0), alias = a;
  std::map<const void*, int> counts;
  for (const Variable& v : {a, b, alias}) ++counts[v.ref()];
  EXPECT_EQ(counts.at(a.ref()), 2);
  EXPECT_EQ(counts.at(b.ref()), 1);
}

}  // namespace
}  // namespace etude
