// SPDX-License-Identifier: Apache-2.0
// Plans with forks: the bits, errors, lines and cancellations of the steps one after another.
#include "etude/plan/forks.h"

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/etude.h"
#include "etude/plan/plan.h"
#include "etude/stage/trace.h"
#include "tests/expect_error.h"
#include "tests/fork_scope.h"
#include "tests/functions/printing.h"

namespace etude::forks_test {
namespace {

using internal::Forks;
using internal::Plan;
using tests::expect_error;
using tests::ForkScope;
using tests::Printing;
using tests::ThreadCountScope;
using Tensors = std::vector<Tensor>;

// A graph of its own each time, so that its plan is made with the setting of the moment.
template <class F>
GraphRef traced(const F& f, const Tensors& like) {
  internal::TraceContext trace("f", {});
  Tensors inputs;
  for (std::size_t i = 0; i < like.size(); ++i) {
    inputs.push_back(trace.add_argument("x" + std::to_string(i), like[i].type()));
  }
  const Tensors out = f(inputs);
  return trace.finish(out).graph;
}

Tensors run(const Graph& graph, const Tensors& inputs) {
  const OperandList list{std::span<const Tensor>(inputs)};
  const Values out = Plan::of(graph)->run(list.view());
  return {out.begin(), out.end()};
}

void expect_same(const Tensors& got, const Tensors& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_value(got[i], want[i])) << what << ", output " << i;
  }
}

Tensor waves(const Shape& shape, float step) {
  return reshape(sin(astype(arange(shape.count()), kFloat32) * step), shape.to_vector());
}

// A chain of small products: no step of it is worth several threads.
Tensor tower(Tensor x, const Tensor& w, int layers) {
  for (int i = 0; i < layers; ++i) x = tanh(matmul(x, w) * 0.1F);
  return x;
}
Tensors two_towers(const Tensors& x) {
  const Tensor a = tower(x[0], x[1], 60), b = tower(x[0], x[2], 60);
  return {a + b, sum(a), sum(b)};
}
Tensors tower_inputs() {
  return {waves({64, 64}, 0.3F), waves({64, 64}, 0.7F), waves({64, 64}, 1.1F)};
}

TEST(Forks, AreMadeOfLongBranchesAndComputeTheSameBits) {
  const Tensors in = tower_inputs();
  const Tensors want = two_towers(in);
  const ForkScope if_faster(Forks::kIfFaster);
  const ThreadCountScope two(2);
  const GraphRef graph = traced(two_towers, in);
  const auto plan = Plan::of(*graph);
  EXPECT_EQ(plan->forks(), 1u);
  EXPECT_NE(plan->to_string().find("run side by side"), std::string::npos) << plan->to_string();
  for (const int threads : {1, 2, 7}) {
    const ThreadCountScope some(threads);
    for (int i = 0; i < 3; ++i) expect_same(run(*graph, in), want, std::to_string(threads));
  }
  const ForkScope never(Forks::kNever);
  const GraphRef serial = traced(two_towers, in);
  EXPECT_EQ(Plan::of(*serial)->forks(), 0u);
  EXPECT_LE(plan->arena_bytes(), Plan::of(*serial)->arena_bytes() * 5 / 4 + (256 << 10));
}

TEST(Forks, AreNotMadeOfChainsOfShortBranchesOrForOneThread) {
  const Tensors in = tower_inputs();
  const auto chain = [](const Tensors& x) {
    return Tensors{tower(tower(x[0], x[1], 60), x[2], 60)};
  };
  const auto small = [](const Tensors& x) {
    return Tensors{tower(x[0], x[1], 2) + tower(x[0], x[2], 2)};
  };
  const auto large = [](const Tensors& x) {  // its steps use all threads themselves
    const Tensor y = tile(x[0], {16, 16});
    return Tensors{matmul(y, y), matmul(y, y + 1.0F)};
  };
  const ForkScope if_faster(Forks::kIfFaster);
  const ThreadCountScope two(2);
  EXPECT_EQ(Plan::of(*traced(chain, in))->forks(), 0u);
  EXPECT_EQ(Plan::of(*traced(small, in))->forks(), 0u);
  EXPECT_EQ(Plan::of(*traced(large, in))->forks(), 0u);
  const ThreadCountScope one(1);
  EXPECT_EQ(Plan::of(*traced(two_towers, in))->forks(), 0u);
}

// Random calls on matrices [8, 8], several with views, parts and writes in place.
struct Program {
  explicit Program(uint64_t seed) : random(seed) {
    const int n = 6 + static_cast<int>(random() % 30);
    for (int i = 0; i < n; ++i) {
      lines.push_back({static_cast<int>(random() % 9), static_cast<std::size_t>(random()),
                       static_cast<std::size_t>(random())});
    }
  }
  struct Line {
    int kind;
    std::size_t a, b;
  };

  Tensors operator()(const Tensors& inputs) const {
    Tensors all = inputs;
    for (const Line& line : lines) {
      // Mostly late values, so that there are chains.
      const auto at = [&](std::size_t i) {
        const std::size_t near = std::min<std::size_t>(all.size(), 4);
        return i % 3 == 0 ? i % all.size() : all.size() - 1 - i % near;
      };
      const Tensor x = all[at(line.a)], y = all[at(line.b)];
      step(line, x, y, all);
    }
    Tensors out;
    for (std::size_t i = 0; i < all.size(); i += 1 + lines.size() / 4) out.push_back(all[i]);
    out.push_back(all.back());
    return out;
  }
  static void step(const Line& line, const Tensor& x, const Tensor& y, Tensors& all) {
    switch (line.kind) {
      case 0:
        return all.push_back(tanh(matmul(x, y) * 0.1F));
      case 1:
        return all.push_back(x * 0.5F - y);
      case 2:
        return all.push_back(permute_dims(x, {1, 0}) + 0.25F);
      case 3: {
        Tensor z = x;
        z.at(static_cast<int64_t>(line.b % 8)) = y.at(0);
        return all.push_back(z);
      }
      case 4:
        return all.push_back(concat({x.at(slice(0, 4)), y.at(slice(4, 8))}, {.axis = 0}));
      case 5:
        return all.push_back(sort(x));
      case 6:
        return all.push_back(reshape(reshape(x, {64}), {8, 8}) * y);
      case 7:
        return all.push_back(cumulative_sum(x, {.axis = 0}) * 0.1F);
      default:
        return all.push_back(x - mean(y));
    }
  }

  std::mt19937_64 random;
  std::vector<Line> lines;
};

TEST(Forks, KeepTheBitsOfRandomPrograms) {
  const ForkScope always(Forks::kAlways);
  const Tensors in = {waves({8, 8}, 0.3F), waves({8, 8}, 0.7F), waves({8, 8}, 1.1F)};
  int forks = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Program program(seed);
    const Tensors want = program(in);
    const GraphRef graph = traced(program, in);
    forks += static_cast<int>(Plan::of(*graph)->forks());
    for (const int threads : {1, 2, 7}) {
      const ThreadCountScope some(threads);
      expect_same(run(*graph, in), want, "seed " + std::to_string(seed));
    }
    // Inputs that die become memory and results.
    const std::vector<uint8_t> dying(in.size(), 1);
    const GraphRef other = traced(program, in);
    const auto plan = Plan::of_passed(*other, dying);
    const Tensors copies = {in[0] * 1.0F, in[1] * 1.0F, in[2] * 1.0F};
    OperandList list{std::span<const Tensor>(copies)};
    const Values out = plan->run(list.view(), dying);
    expect_same({out.begin(), out.end()}, want, "donated, seed " + std::to_string(seed));
  }
  EXPECT_GT(forks, 150);
}

TEST(Forks, KeepTheBitsOfGradientsAndLoops) {
  const ForkScope always(Forks::kAlways);
  const Tensors in = tower_inputs();
  const auto loss = [](const Tensor& x, const Tensor& v, const Tensor& w) {
    const Tensor end = fold(
        [&](const Tensor& state, const Tensor& row) {
          const Tensor a = tower(state, v, 2), b = tower(state + row, w, 2);
          return a * b - row;
        },
        x, stack({x, x * 0.5F, x * 0.25F}));
    return sum(end * tower(x, v, 2) + tower(x, w, 3));
  };
  const auto f = [&](const Tensor& x, const Tensor& v, const Tensor& w) {
    return gradient(loss, x, v, w);
  };
  const auto [wx, wv, ww] = f(in[0], in[1], in[2]);
  const auto staged = function(f);
  for (const int threads : {2, 1, 7}) {
    const ThreadCountScope some(threads);
    const auto [x, v, w] = staged(in[0], in[1], in[2]);
    expect_same({x, v, w}, {wx, wv, ww}, std::to_string(threads));
  }
  EXPECT_GT(Plan::of(staged.traces()[0].graph())->forks(), 0u);
}

// The branches fail at steps that are interleaved in the program. The index decides which.
Tensors failing(const Tensors& x) {
  const auto row = [&](const Tensor& from, int64_t i) {
    return take(from, x[3].at(slice(i, i + 1)), {.axis = 0}) + from;
  };
  Tensor a = tower(x[0], x[1], 20), b = tower(x[0], x[2], 2);
  a = row(a, 0);
  b = row(b, 1);
  a = row(a, 2);
  b = tower(row(b, 3), x[2], 20);
  return {a + b};
}

TEST(Forks, ReportTheFirstErrorOfTheProgram) {
  const ForkScope always(Forks::kAlways);
  Tensors in = tower_inputs();
  in.push_back(Tensor({0, 0, 0, 0}));
  const Tensors want = failing(in);
  const GraphRef graph = traced(failing, in);
  ASSERT_GT(Plan::of(*graph)->forks(), 0u);
  for (const int threads : {1, 2, 7}) {
    const ThreadCountScope some(threads);
    for (int first = 0; first < 4; ++first) {
      std::vector<int32_t> index(4, 0);
      for (int i = first; i < 4; ++i) index[static_cast<std::size_t>(i)] = 100 + i;
      in[3] = Tensor(index);
      const std::string number = std::to_string(100 + first);
      expect_error([&] { run(*graph, in); }, ErrorCode::kOutOfRange,
                   {"take: ", number, "forks_test.cc"});
      {
        const ProfileScope watched;  // step by step
        expect_error([&] { run(*graph, in); }, ErrorCode::kOutOfRange, {number});
      }
      in[3] = Tensor({0, 0, 0, 0});
      expect_same(run(*graph, in), want, "after an error");
    }
  }
}

TEST(Forks, LeaveArgumentsAsTheyWereAfterAnError) {
  const ForkScope always(Forks::kAlways);
  const ThreadCountScope two(2);
  const auto f = function([](Tensor& state, const Tensor& x, const Tensor& index) {
    const Tensor a = take(tower(x, x, 5), index, {.axis = 0});
    state = state * 2.0F + 1.0F;
    state = state + sum(a);
  });
  Tensor state = waves({64, 64}, 0.9F);
  const Tensor before = state * 1.0F, x = waves({64, 64}, 0.3F);
  for (int i = 0; i < 20; ++i) {
    expect_error([&] { f(state, x, Tensor({77})); }, ErrorCode::kOutOfRange, {"77"});
    ASSERT_TRUE(same_value(state, before));
  }
  f(state, x, Tensor({1}));
  EXPECT_FALSE(same_value(state, before));
}

TEST(Forks, KeepTheOrderOfEffects) {
  const ForkScope always(Forks::kAlways);
  const ThreadCountScope two(2);
  const auto f = function([](const Tensor& x, const Tensor& limit) {
    const Tensor a = tower(x, x, 3), b = tower(x + 1.0F, x, 3);
    print("first", sum(a) > 1e9F);
    const Tensor c = tower(a, b, 3), d = tower(b, a, 3);
    assert_true(limit > 0.0F, "the limit");
    print("second", sum(c) > 1e9F);
    return c + d;
  });
  const Tensor x = waves({8, 8}, 0.3F);
  Printing printing;
  f(x, Tensor(1.0F));
  EXPECT_EQ(printing.take(), (std::vector<std::string>{"first false", "second false"}));
  expect_error([&] { f(x, Tensor(-1.0F)); }, ErrorCode::kFailedPrecondition, {"the limit"});
  EXPECT_EQ(printing.take(), (std::vector<std::string>{"first false"}));
}

TEST(Forks, AreCancelledInTheMiddleOfABranch) {
  const ForkScope always(Forks::kAlways);
  const ThreadCountScope two(2);
  const auto f = function([](Tensor& state, const Tensor& x) {
    const auto loop = [&](const Tensor& start) {
      return while_loop([](const Tensor& s) { return sum(s) > -1e30F; },
                        [&](const Tensor& s) { return tower(s, x, 2); }, start);
    };
    const Tensor a = loop(x), b = loop(x + 1.0F);  // they do not end
    state = state + a + b;
  });
  Tensor state = waves({8, 8}, 0.5F);
  const Tensor before = state * 1.0F;
  const Cancellation enough;
  std::jthread timer([enough] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    enough.cancel();
  });
  const CancelScope scope(enough);
  expect_error([&] { f(state, waves({8, 8}, 0.1F)); }, ErrorCode::kCancelled, {"forks_test.cc"});
  EXPECT_TRUE(same_value(state, before));
}

TEST(Forks, AreProfiledInTheOrderOfTheProgram) {
  const Tensors in = tower_inputs();
  const ForkScope if_faster(Forks::kIfFaster);
  const ThreadCountScope two(2);
  const GraphRef graph = traced(two_towers, in);
  ASSERT_EQ(Plan::of(*graph)->forks(), 1u);
  const ProfileScope scope;
  expect_same(run(*graph, in), two_towers(in), "profiled");
  int64_t products = 0;
  for (const ProfileEntry& entry : scope.profile().entries()) {
    if (entry.op == "matmul") products += entry.calls;
  }
  EXPECT_EQ(products, 2 * 120);  // of the plan, and of the calls one by one
}

// Code that is compiled ahead of time runs the steps of a layout in turn.
TEST(Forks, AreLaidOutInTheOrderOfTheProgram) {
  const ForkScope if_faster(Forks::kIfFaster);
  const ThreadCountScope two(2);
  const auto interleaved = [](const Tensors& x) {
    Tensor a = x[0], b = x[0];
    for (int i = 0; i < 60; ++i) {
      a = tower(a, x[1], 1);
      b = tower(b, x[2], 1);
    }
    return Tensors{a + b};
  };
  const Tensors in = tower_inputs();
  const GraphRef graph = traced(interleaved, in);
  ASSERT_EQ(Plan::of(*graph)->forks(), 1u);
  expect_same(run(*graph, in), interleaved(in), "interleaved");
  const internal::PlanLayout layout = Plan::of(*graph)->layout();
  int turns = 0;  // from the second branch, whose nodes have larger numbers, to the first
  for (std::size_t i = 1; i < layout.steps.size(); ++i) {
    turns += layout.steps[i].node < layout.steps[i - 1].node ? 1 : 0;
  }
  EXPECT_EQ(turns, 59);
}

// Products that hold scratch memory of their thread while their loops wait for other threads.
TEST(Forks, HaveLoopsInsideBranchesOnManyThreadsAtOnce) {
  const ForkScope always(Forks::kAlways);
  const ThreadCountScope some(4);
  const auto f = [](const Tensors& x) {
    Tensor a = x[0], b = x[0] + 1.0F;
    for (int i = 0; i < 6; ++i) {
      a = matmul(a, x[1], {.transpose_y = true}) * 0.01F;
      b = matmul(b, x[2], {.transpose_y = true}) * 0.01F;
    }
    return Tensors{a, b, a - b};
  };
  const Tensors in = {waves({16, 1024}, 0.3F), waves({1024, 1024}, 0.7F),
                      waves({1024, 1024}, 1.1F)};
  const Tensors want = f(in);
  const GraphRef graph = traced(f, in);
  ASSERT_GT(Plan::of(*graph)->forks(), 0u);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) expect_same(run(*graph, in), want, "at once");
    });
  }
}

}  // namespace
}  // namespace etude::forks_test
