// SPDX-License-Identifier: Apache-2.0
// Gradients of reads of a part: by index, slice and index array. Each adds into that part of one
// cotangent. Values are closed forms; costs are counts of calls and allocations.
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/eager/profile.h"
#include "etude/etude.h"

namespace etude::parts_test {
namespace {

using Doubles = std::vector<double>;
using Function = std::function<Tensor(const Tensor&)>;

Tensor numbers(const Doubles& values) { return Tensor(values); }
Tensor numbers(const Doubles& values, const Shape& shape) { return Tensor(values, shape); }

void expect_equal(const Tensor& x, const Doubles& want, const std::string& what) {
  EXPECT_EQ(to_dense(x).to_vector<double>(), want) << what;
}

// All of these numbers are small integers, so that sums in any order are exact.
void expect_gradient(const Function& f, const Tensor& x, const Doubles& want) {
  const Tensor eager = gradient(f, x);
  expect_equal(eager, want, "eager");
  const auto staged = function([&](const Tensor& a) { return to_dense(gradient(f, a)); });
  const auto of_staged = function([&](const Tensor& a) { return f(a); });
  for (int run = 0; run < 2; ++run) {
    expect_equal(staged(x), want, "staged");
    expect_equal(gradient(of_staged, x), want, "gradient of staged");
  }
  {
    const LazyScope lazy;
    expect_equal(gradient(f, x), want, "lazy");
  }
  Doubles both = want;
  both.insert(both.end(), want.begin(), want.end());
  const auto per_example = [&](const Tensor& a) { return to_dense(gradient(f, a)); };
  expect_equal(vmap(per_example)(stack({x, x})), both, "vmap of gradient");
  const auto batch = [&](const Tensor& a) { return sum(vmap(f)(a)); };
  expect_equal(gradient(batch, stack({x, x})), both, "gradient of vmap");
}

TEST(Parts, OfAVectorByIndexAndSlice) {
  const Tensor x = numbers({1, 2, 3, 4});
  const auto by_index = [](const Tensor& t) {
    Tensor s = 0.0 * t.at(0);
    for (int i = 0; i < 4; ++i) s += (i + 1.0) * t.at(i) * t.at(i);
    return s;
  };
  expect_gradient(by_index, x, {2, 8, 18, 32});
  const auto overlapping = [](const Tensor& t) {
    return sum(t.at(Slice{0, 3}) * t.at(Slice{1, 4})) + 3.0 * sum(t.at(Slice{{}, {}, -2}));
  };
  expect_gradient(overlapping, x, {2, 1 + 3 + 3, 2 + 4, 3 + 3});
  const auto read_whole_as_well = [](const Tensor& t) {
    return sum(t * t) + t.at(1) + sum(2.0 * t) + t.at(1) * t.at(-1) + sum(exp(0.0 * t));
  };
  expect_gradient(read_whole_as_well, x, {4, 6 + 1 + 4, 8, 10 + 2});
}

TEST(Parts, OfAMatrixByAllKindsOfIndices) {
  const Tensor x = numbers({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor repeated({2, 0, 2});
  const auto parts = [&](const Tensor& t) {
    return sum(t.at(1)) + sum(10.0 * t.at(kAll, 2)) + 100.0 * t.at(0, 0) +
           sum(1000.0 * t.at(kAll, repeated)) + sum(1e4 * t.at(Tensor({1, 1}), Tensor({0, 0})));
  };
  expect_gradient(parts, x, {1100, 0, 2010, 21001, 1, 2011});
  const auto rows_and_parts = [&](const Tensor& t) {
    return sum(take(t, Tensor({1, 1}))) + sum(10.0 * t.at(0)) + sum(100.0 * take(t, Tensor({0}))) +
           sum(1000.0 * t.at(Tensor({1})));
  };
  expect_gradient(rows_and_parts, x, {110, 110, 110, 1002, 1002, 1002});
  const auto rows_alone = [&](const Tensor& t) {
    Tensor s = sum(take(t, Tensor({1, 0})));
    for (int i = 0; i < 100; ++i) s += sum(take(t, Tensor({i % 2})) * (i + 1.0));
    return s;
  };
  expect_gradient(rows_alone, x, {2501, 2501, 2501, 2551, 2551, 2551});
}

// A product of x[0] x[1] x[2], and a sum of cubes by slices.
TEST(Parts, HaveSecondDerivatives) {
  const auto product = [](const Tensor& t) { return t.at(0) * t.at(1) * t.at(2); };
  const Tensor x = numbers({2, 3, 5});
  const Doubles want = {0, 5, 3, 5, 0, 2, 3, 2, 0};
  expect_equal(hessian(product, x), want, "hessian");
  const auto row = [&](const Tensor& t) { return gradient(product, t).at(1); };
  expect_gradient(row, x, {5, 0, 2});
  expect_equal(hvp(product, x, numbers({1, 10, 100})), {350, 205, 23}, "hvp");
  const auto slope = gradient(product);
  expect_equal(jvp(slope, x, numbers({1, 10, 100})).second, {350, 205, 23}, "jvp of gradient");
  const auto cubes = [](const Tensor& t) {
    const Tensor a = t.at(Slice{0, 2}), b = t.at(Slice{1, 3});
    return sum(a * a * a) + sum(b * b * b);
  };
  expect_equal(hessian(cubes, x), {12, 0, 0, 0, 36, 0, 0, 0, 30}, "hessian of cubes");
  const auto gathered = [](const Tensor& t) {
    const Tensor a = reshape(t, {3, 1}).at(Tensor({0, 2, 0}), Tensor({0, 0, 0}));
    return sum(a * a * a);
  };
  expect_equal(hessian(gathered, x), {24, 0, 0, 0, 0, 0, 0, 0, 30}, "hessian of gathered");
}

// A cotangent sum is updated in place; other tensors with the same elements keep them.
TEST(Parts, ChangeNoTensorThatSomebodyElseHolds) {
  const Tensor x = numbers({1, 2, 3}), y = numbers({10, 20, 30}), w = numbers({1, 1, 2});
  const auto shared = [&](const Tensor& a, const Tensor& b) {
    const Tensor first = a.at(0), second = b.at(Slice{1, 3});
    const Tensor both = a + b;
    return sum(both * w) + 5.0 * first + sum(second) + a.at(0) + a.at(2);
  };
  const auto [dx, dy] = gradient(shared, x, y);
  expect_equal(dx, {7, 1, 3}, "dx");
  expect_equal(dy, {1, 2, 3}, "dy");
  expect_equal(w, {1, 1, 2}, "w");

  const auto parts = [](const Tensor& t) { return t * 1.0 + t.at(Slice{{}, {}, -1}) + t.at(0); };
  const auto [value, pull] = value_with_pullback(parts, x);
  expect_equal(value, {5, 5, 5}, "value");
  const Tensor ct = numbers({1, 10, 100}), copy = ct;
  const Tensor once = pull(ct), twice = pull(ct);
  expect_equal(once, {1 + 100 + 111, 10 + 10, 100 + 1}, "once");
  EXPECT_TRUE(same_value(once, twice));
  expect_equal(pull(once), {212 + 101 + 333, 20 + 20, 101 + 212}, "a cotangent from before");
  expect_equal(once, {212, 20, 101}, "once, later");
  expect_equal(ct, {1, 10, 100}, "the cotangent");
  expect_equal(copy, {1, 10, 100}, "its copy");
}

TEST(Parts, OnTapesThatAreSweptTwiceAndNested) {
  const Tensor x = numbers({1, 2, 3});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor middle = x * x;
  const Tensor y = middle.at(0) * 2.0 + middle.at(2) * 3.0 + middle.at(0);
  tape.stop();
  for (int run = 0; run < 2; ++run) {
    // A source on the way keeps its sum.
    const std::vector<Tensor> found = tape.gradient(y, std::vector{x, middle});
    expect_equal(found[0], {6, 0, 18}, "x");
    expect_equal(found[1], {3, 0, 3}, "middle");
  }
  GradientTape outer;
  outer.watch(x);
  Tensor slope;
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor z = x.at(0) * x.at(1) * x.at(1) + x.at(1);
    slope = inner.gradient(z, x);
  }
  expect_equal(slope, {4, 5, 0}, "inner");
  expect_equal(outer.gradient(slope.at(1) + slope.at(0), x), {4, 2 + 4, 0}, "outer");
}

// Contributions of zeros leave 0, never -0, in all modes and in loops.
TEST(Parts, GiveTheSameZerosInAllModes) {
  const Tensor x = numbers({1, 2, 3, 4}), minus_zero = numbers({-0.0, -0.0, -0.0, -0.0});
  const auto unrolled = [&](const Tensor& t) {
    Tensor s = t.at(0) * -0.0;
    for (int i = 0; i < 3; ++i) s += sum(t.at(Slice{i, i + 1}) * -0.0) + sum(t * minus_zero);
    return s;
  };
  const auto single = [](const Tensor& t) { return sum(t.at(Slice{1, 3}) * -0.0); };
  const auto in_a_loop = [&](const Tensor& t) {
    return fold([&](const Tensor& s, const Tensor& row) { return s + single(t) + 0.0 * row; },
                tensor(0.0, {.dtype = kFloat64}), numbers({1, 2, 3}));
  };
  for (const Function& f : {Function(unrolled), Function(single), Function(in_a_loop)}) {
    const Tensor zeros_like_x = numbers({0, 0, 0, 0});
    EXPECT_TRUE(same_value(gradient(f, x), zeros_like_x)) << gradient(f, x);
    const auto staged = function([&](const Tensor& t) { return gradient(f, t); });
    EXPECT_TRUE(same_value(staged(x), zeros_like_x)) << staged(x);
    const LazyScope lazy;
    EXPECT_TRUE(same_value(gradient(f, x), zeros_like_x));
  }
}

TEST(Parts, OfWritesTakeTheCotangentOver) {
  const auto writes = [](const Tensor& t) {
    Tensor a = t * 1.0;
    a.at(1) = t.at(0) * t.at(2);
    for (int i = 2; i < 4; ++i) a.at(i) = a.at(i - 1) * 2.0;
    a.at(0) += 3.0 * a.at(3);
    return sum(a * numbers({1, 10, 100, 1000}));
  };
  // a = {x0 + 12 p, p, 2 p, 4 p} with p = x0 x2: 12 + 10 + 200 + 4000 times p.
  expect_gradient(writes, numbers({1, 7, 3, 9}), {1 + 4222 * 3, 0, 4222, 0});
}

// Allocations of an op, and calls.
std::pair<int64_t, int64_t> counts(const Profile& profile, std::string_view op) {
  int64_t allocations = 0, calls = 0;
  for (const ProfileEntry& entry : profile.entries()) {
    if (entry.op != op) continue;
    allocations += entry.allocations;
    calls += entry.calls;
  }
  return {allocations, calls};
}

// One buffer of the size of x for all reads, besides the memory of the pass that removes -0.
// spec: D88.c, D89.c
TEST(PartCounts, ReadsShareOneCotangent) {
  const Tensor x = zeros({1 << 16}), rows = zeros({1 << 10, 64});
  const Tensor one({1}), two({2, 1});
  const auto reads = [](const Tensor& t) {
    Tensor s(0.0F);
    for (int i = 0; i < 100; ++i) s += t.at(3 * i);
    return s;
  };
  const auto slices = [](const Tensor& t) {
    Tensor s(0.0F);
    for (int i = 0; i < 100; ++i) s += sum(t.at(Slice{i, i + 3}, Slice{0, 64, 3}));
    return s;
  };
  const auto arrays = [&](const Tensor& t) {
    Tensor s(0.0F);
    for (int i = 0; i < 100; ++i) s += sum(t.at(two, one)) + sum(t.at(kAll, two).at(0));
    return s;
  };
  const auto expect_in_place = [](const Function& f, const Tensor& at, const char* what) {
    const ProfileScope scope;
    gradient(f, at);
    const auto [made, updates] = counts(scope.profile(), "index_update");
    EXPECT_EQ(made, 0) << what;
    EXPECT_GE(updates, 99) << what;
    EXPECT_LE(counts(scope.profile(), "spread_slice").second, 101) << what;
  };
  expect_in_place(reads, x, "reads");
  expect_in_place(slices, rows, "slices");
  expect_in_place(arrays, rows, "arrays");
  const auto per_example = [&](const Tensor& t) {
    return vmap([&](const Tensor& a) { return gradient(reads, a); })(t);
  };
  const ProfileScope scope;
  per_example(zeros({2, 1 << 12}));
  EXPECT_EQ(counts(scope.profile(), "index_update"), std::pair(int64_t{0}, int64_t{99}));
}

// spec: D89.c
TEST(PartCounts, WritesTakeTheCotangentOver) {
  const Tensor x = zeros({1 << 16});
  const auto writes = [](Tensor t) {
    for (int i = 0; i < 100; ++i) t.at(3 * i) = 1.0F;
    return sum(t);
  };
  const auto pull = value_with_pullback(writes, x).second;
  const ProfileScope scope;
  pull(Tensor(1.0F));
  EXPECT_EQ(counts(scope.profile(), "index_update"), std::pair(int64_t{0}, int64_t{100}));
}

// Rows that arrive one by one are joined once: n rows are copied once or twice, not n times.
TEST(PartCounts, RowsAreJoinedOnce) {
  const Tensor table = zeros({4, 8}), one({1});
  const auto rows = [&](const Tensor& t) {
    Tensor s(0.0F);
    for (int i = 0; i < 320; ++i) s += sum(take(t, one));
    return s;
  };
  const ProfileScope scope;
  const Tensor g = gradient(rows, table);
  EXPECT_EQ(counts(scope.profile(), "concat").second, 2 * 11);  // ten groups of 32, and their sum
  ASSERT_TRUE(g.slices().has_value());
  EXPECT_EQ(g.slices()->indices.size(), 320);
}

TEST(PartThreads, TakeGradientsOfOneTensorAtOnce) {
  const Tensor x = numbers({1, 2, 3, 4});
  const auto parts = [](const Tensor& t) {
    Tensor s = sum(t * t);
    for (int i = 0; i < 50; ++i) s += t.at(i % 4) * t.at(-1);
    return s;
  };
  const auto pull = value_with_pullback(parts, x).second;
  // 13 reads of x[0] and x[1], 12 of x[2] and x[3].
  const Doubles want = {2 + 52, 4 + 52, 6 + 48, 8 + 13 + 26 + 36 + 48 + 48};
  std::vector<Tensor> found(8), pulled(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      found[i] = gradient(parts, x);
      pulled[i] = pull(numbers({1}).at(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < 8; ++i) {
    expect_equal(found[i], want, "gradient");
    expect_equal(pulled[i], want, "pullback");
  }
}

}  // namespace
}  // namespace etude::parts_test
