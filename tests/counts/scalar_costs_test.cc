// SPDX-License-Identifier: Apache-2.0
// The costs of derivatives of numbers, as counts: calls on the tape, slots and allocations for n
// reads and writes are proportional to n, and a reverse pass allocates only its result.
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}  // namespace
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // where both are inlined
#endif
void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace etude {
namespace {

using Doubles = std::vector<double>;
using Number = Active<double>;

struct Cost {
  std::size_t calls, slots;
};
// The costs of recording f on the inputs make(n).
template <class Make, class F>
Cost recorded(std::size_t n, const Make& make, const F& f) {
  internal::ScalarTape<double> tape;
  const internal::RecordingScope<double> scope(tape);
  auto input = make(n, tape);
  const std::size_t before = tape.size();
  f(input);
  return {tape.calls(), tape.size() - before};
}
template <class Make, class F>
void expect_linear(const Make& make, const F& f, std::size_t calls_each, std::size_t slots_each) {
  for (const std::size_t n : {1000UL, 10000UL, 100000UL}) {
    const Cost cost = recorded(n, make, f);
    EXPECT_LE(cost.calls, calls_each * n + 4) << n;
    EXPECT_LE(cost.slots, slots_each * n + 4) << n;
  }
}
std::vector<Number> numbers(std::size_t n, internal::ScalarTape<double>& tape) {
  std::vector<Number> v;
  for (std::size_t i = 0; i < n; ++i) v.push_back(Number::input(1.0, tape));
  return v;
}

// spec: D88.a
TEST(ScalarCosts, ReadsByIndexRecordNothing) {
  expect_linear(
      numbers,
      [](auto& v) {
        Number sum = 0;
        for (std::size_t i = 0; i < v.size(); ++i) sum += v[i];
      },
      1, 0);
  expect_linear(
      numbers,
      [](auto& v) {
        Number sum = 0;
        for (std::size_t i = 1; i < v.size(); ++i) sum += v[i] * v[i - 1];
      },
      1, 0);
  expect_linear(
      numbers,
      [](auto& v) {
        Number product = 1;
        for (const Number& e : v) product *= e;
      },
      1, 0);
}

// spec: D90.a
TEST(ScalarCosts, WritesByIndexTakeASlotEach) {
  expect_linear(
      numbers,
      [](auto& v) {
        for (std::size_t i = 1; i < v.size(); ++i) v[i] = v[i - 1] * 2.0;
      },
      1, 1);
}

struct Row {
  std::vector<Number> w;
};

// spec: D89.a
TEST(ScalarCosts, FieldsElementsAndMapEntries) {
  const auto rows = [](std::size_t n, internal::ScalarTape<double>& tape) {
    std::vector<Row> v(n / 10);
    for (Row& row : v) row.w = numbers(10, tape);
    return v;
  };
  expect_linear(
      rows,
      [](auto& v) {
        Number sum = 0;
        for (std::size_t i = 0; i < v.size(); ++i) {
          for (std::size_t j = 0; j < 10; ++j) sum += v[i].w[j] * v[i].w[j];
        }
      },
      1, 0);
  const auto map = [](std::size_t n, internal::ScalarTape<double>& tape) {
    std::map<std::size_t, Number> m;
    for (std::size_t i = 0; i < n; ++i) m.emplace(i, Number::input(1.0, tape));
    return m;
  };
  expect_linear(
      map,
      [](auto& m) {
        Number sum = 0;
        for (std::size_t i = 0; i < m.size(); ++i) sum += m.at(i);
      },
      1, 0);
}

// A graph: its vertices hold their values and the numbers of their neighbours.
struct Vertex {
  Number value;
  std::vector<std::size_t> next;
};

// spec: D89.b
TEST(ScalarCosts, VerticesOfGraphs) {
  const auto ring = [](std::size_t n, internal::ScalarTape<double>& tape) {
    std::vector<Vertex> graph;
    for (std::size_t i = 0; i < n; ++i) {
      graph.push_back({Number::input(1.0, tape), {(i + 1) % n, (7 * i + 3) % n}});
    }
    return graph;
  };
  expect_linear(
      ring,
      [](auto& graph) {
        Number sum = 0;
        for (const Vertex& v : graph) {
          for (const std::size_t k : v.next) sum += v.value * graph[k].value;
        }
      },
      2, 0);
  // A walk along edges costs the vertices on its way, however large the graph is.
  for (const std::size_t n : {1000UL, 100000UL}) {
    const Cost walk = recorded(n, ring, [](auto& graph) {
      Number sum = 0;
      for (std::size_t i = 0, steps = 0; steps < 100; ++steps, i = graph[i].next[1]) {
        sum += graph[i].value * graph[i].value;
      }
    });
    EXPECT_LE(walk.calls, 104U) << n;
    EXPECT_LE(walk.slots, 4U) << n;
  }
}

template <class T>
struct Plane {
  std::vector<T> w;
  T b;
};

// spec: D2.c
TEST(ScalarCosts, MovingAllocatesNothing) {
  double x = 3;
  using Line = Plane<double>;
  Line line{{1, 2}, 3};
  std::vector<Line> lines(10, Line{Doubles(1000, 1.0), 1});
  tangent_t<Line> by = zero_tangent(line);
  get<&Line::w>(by) = {10, 20};
  get<&Line::b>(by) = 1;
  const auto ones = gradient(
      [](const auto& all) {
        std::decay_t<decltype(all[0].b)> sum = 0;
        for (const auto& one : all) {
          sum += one.b;
          for (const auto& v : one.w) sum += v;
        }
        return sum;
      },
      lines);
  const double* at = line.w.data();
  const std::size_t before = allocations;
  move(x, 2.0);
  move(line, by);
  move(lines, ones);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(line.w.data(), at);
  EXPECT_EQ(x, 5);
  EXPECT_EQ(line.w, (Doubles{11, 22}));
  EXPECT_EQ(line.b, 4);
  EXPECT_EQ(lines[9].w, Doubles(1000, 2.0));
  EXPECT_EQ(lines[9].b, 2);
}

// spec: D88.b, D39
TEST(ScalarCosts, GoingBackAllocatesItsResultOnly) {
  const auto sum = [](const auto& v) {
    std::decay_t<decltype(v[0])> s = 0;
    for (const auto& e : v) s += e * e;
    return s;
  };
  std::size_t first = 0;
  for (const std::size_t n : {1000UL, 100000UL}) {
    const auto pull = pullback(sum, Doubles(n, 1.0));
    static_cast<void>(pull(1.0));  // the thread keeps its cotangents from here on
    const std::size_t before = allocations;
    const Doubles slope = pull(1.0);
    EXPECT_EQ(allocations - before, 1U);
    EXPECT_EQ(slope.back(), 2.0);
    // A whole gradient: the numbers, their slopes and a few lists of chunks.
    static_cast<void>(gradient(sum, Doubles(n, 1.0)));
    const Doubles x(n, 1.0);
    const std::size_t start = allocations;
    static_cast<void>(gradient(sum, x));
    if (first == 0) first = allocations - start;
    EXPECT_LE(allocations - start, first + 8) << "lists grow by doubling";
  }
}

// A gradient by an array of numbers, after the thread has its permanent memory, as a small device
// needs it.
TEST(ScalarCosts, GradientsByArraysAllocateNothing) {
  using Points = std::array<double, 16>;
  const Doubles data(500, 0.25);
  const auto by_tape = [&](const auto& p) {
    std::decay_t<decltype(p[0])> s = 0;
    for (const double d : data) s += sin(d * p[3]) * p[7];
    return s;
  };
  const auto by_scan = [&](const auto& p) {
    using T = std::decay_t<decltype(p[0])>;
    const auto body = [](auto sum, const auto& q, auto d) { return sum + sin(d * q[0]) * q[1]; };
    return scan(data.size(), T(0), std::array<T, 2>{p[3], p[7]}, body, data);
  };
  const auto count = [](const auto& f) {
    Points p{};
    p[3] = 0.5, p[7] = 2;
    const Points slope = gradient(f, p);
    EXPECT_NEAR(slope[7], 500 * std::sin(0.125), 1e-10);
    const std::size_t before = allocations;
    EXPECT_EQ(gradient(f, p), slope);
    return allocations - before;
  };
  EXPECT_EQ(count(by_tape), 0U);
  EXPECT_EQ(count(by_scan), 0U);
}

}  // namespace
}  // namespace etude
