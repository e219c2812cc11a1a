// SPDX-License-Identifier: Apache-2.0
// Random programs at random sizes: a staged function has the bits of eager calls at each of them,
// in values and gradients, whether a symbolic graph serves it or a trace. Programs that look at no
// size are served by symbolic graphs nearly always. Program n is made from seed n alone; a failure
// prints it:
//
//   ETUDE_TEST_SEED=4711 ETUDE_TEST_CASES=1 build/dev/bin/random_sizes_test
#include <cstdlib>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude {
namespace {

constexpr int64_t kColumns = 4;

enum class Step {
  kAdd,
  kScale,
  kTanh,
  kMatmul,
  kCentre,
  kMeanOfRows,
  kWhere,
  kSort,
  kWriteRow,
  kUpdateInPlace,
  kReshape,
  kConcat,
  kFlip,
  kRoll,
  kSoftmax,
  kCumulate,
  kPad,
  kWindow,
  kRowVector,
  kGradient,
  kGradientOfMean,
  kVmap,
  kCallInner,
  kDropout,
  kCond,
  kFold,
  kScan,
  kWhile,
  kEnd,
  // Programs that read sizes.
  kScaleBySize,
  kDecide,
  kZeros,
};

// A program on matrices [n, 4].
struct Program {
  Program(uint64_t seed, bool may_look) : seed_(seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
    const int n = 3 + below(9);
    for (int i = 0; i < n; ++i) {
      lines.push_back(
          {static_cast<Step>(below(static_cast<uint64_t>(Step::kEnd))), below(1000), below(1000)});
    }
    if (!may_look) return;
    constexpr int kLooks[] = {static_cast<int>(Step::kScaleBySize), static_cast<int>(Step::kDecide),
                              static_cast<int>(Step::kZeros)};
    lines.push_back({static_cast<Step>(kLooks[below(3)]), below(1000), below(1000)});
  }
  struct Line {
    Step step;
    int a, b;  // which values, among those there are
  };

  Tensor run(const Tensor& x, const Tensor& y) const {
    std::vector<Tensor> values = {x, y};
    for (const Line& line : lines) {
      const auto at = [&](int i) { return static_cast<std::size_t>(i) % values.size(); };
      if (line.step == Step::kUpdateInPlace) {
        const Tensor by = values[at(line.b)];
        values[at(line.a)] += by;
      } else {
        values.push_back(step(line, values[at(line.a)], values[at(line.b)]));
      }
    }
    Tensor total = values.back();
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) total = total + values[i] * 0.5F;
    return total;
  }

  std::string text() const {
    std::string out = fmt::format("ETUDE_TEST_SEED={} ETUDE_TEST_CASES=1:", seed_);
    for (const Line& l : lines) {
      out += fmt::format(" {}({}, {})", static_cast<int>(l.step), l.a, l.b);
    }
    return out;
  }

  std::vector<Line> lines;

 private:
  static Tensor step(const Line& line, const Tensor& x, const Tensor& y) {
    switch (line.step) {
      case Step::kAdd:
        return x + y;
      case Step::kScale:
        return x * y * 0.5F;
      case Step::kTanh:
        return tanh(x);
      case Step::kMatmul:
        return matmul(matmul(x, y, {.transpose_y = true}), x) * 0.1F;
      case Step::kCentre:
        return x - mean(y, {.axis = {1}, .keepdims = true});
      case Step::kMeanOfRows:
        return x - mean(y, {.axis = {0}});
      case Step::kWhere:
        return where(x > y, x, y * 0.75F);
      case Step::kSort:
        return sort(x, {.axis = 0}) + y;
      case Step::kWriteRow: {
        Tensor z = x;
        z.at(line.b % 2) = y.at(-1);
        return z;
      }
      case Step::kReshape:
        return reshape(flip(reshape(x, {-1, 2})), {-1, kColumns}) + y;
      case Step::kConcat:
        return reshape(concat({x, y}), {2, -1, kColumns}).at(line.b % 2);
      default:
        return further_step(line, x, y);
    }
  }

  static Tensor further_step(const Line& line, const Tensor& x, const Tensor& y) {
    switch (line.step) {
      case Step::kFlip:
        return flip(x, {.axis = {0}}) + y;
      case Step::kRoll:
        return roll(x, 1 + line.b % 3, {.axis = {0}});
      case Step::kSoftmax:
        return nn::softmax(x, {.axis = line.b % 2}) + y;
      case Step::kCumulate:
        return cumulative_sum(x, {.axis = 0}) * 0.1F;
      case Step::kPad:
        return concat({x, y.at(slice(0, 1))}).at(slice(1, std::nullopt));
      case Step::kWindow:
        return concat({x.at(slice(1, std::nullopt)), x.at(slice(0, 1))}) + y;
      case Step::kRowVector:
        return x * sum(y, {.axis = {0}}) * 0.05F;
      case Step::kGradient:
        return gradient([&](const Tensor& z) { return sum(tanh(z * y) * z); }, x);
      case Step::kGradientOfMean:
        return gradient(
            [&](const Tensor& z) {
              return mean(square(matmul(z, y, {.transpose_y = true}))) + sum(var(z, {.axis = {0}}));
            },
            x);
      case Step::kVmap:
        return vmap([&](const Tensor& row) { return row / (1.0F + sum(row * row)); })(x) + y;
      case Step::kCallInner: {
        static const auto inner =
            function([](const Tensor& a, const Tensor& b) { return tanh(a - b) * a + 0.25F; });
        return inner(x, y);
      }
      case Step::kDropout: {
        const PhaseScope training(Phase::kTraining);
        return nn::Dropout(0.5F)(x) + y;
      }
      case Step::kCond:
      case Step::kFold:
      case Step::kScan:
      case Step::kWhile:
        return control_flow(line, x, y);
      case Step::kScaleBySize:
        return x * static_cast<float>(y.shape()[0]);
      case Step::kDecide:
        return x.size() > 24 ? x * 2.0F : x - y;
      case Step::kZeros:
        return zeros(x.shape()) + y * 2.0F;
      default:
        return x;
    }
  }

  // The number of steps, the size of the state or neither follows from n.
  static Tensor control_flow(const Line& line, const Tensor& x, const Tensor& y) {
    switch (line.step) {
      case Step::kCond:
        return cond(
            sum(x) > 0.0F, [&] { return x * y + 0.5F * x; }, [&] { return y - mean(x) * x; });
      case Step::kFold:
        return x + fold([](const Tensor& state, const Tensor& row) { return tanh(state * row); },
                        mean(x, {.axis = {0}}), y);
      case Step::kScan: {
        const auto [last, rows] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = state * 0.5F + row * mean(x);
              return std::pair(next, tanh(next) - row);
            },
            mean(x, {.axis = {0}}), y);
        return rows + last;
      }
      default:
        return while_loop([](const Tensor& state) { return sum(state * state) < 40.0F; },
                          [&](const Tensor& state) { return state * 1.5F + y * 0.1F * x; }, x,
                          {.max_iterations = 4});
    }
  }

  uint64_t seed_;
};

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Count {
  int served = 0, traced = 0;
};

// Calls at two sizes, and then at further ones.
void check(const Program& program, uint64_t seed, Count& count) {
  const auto plain = [&](const Tensor& x, const Tensor& y) { return program.run(x, y); };
  const auto f = function<Tensor(const Tensor&, const Tensor&)>(plain);
  std::mt19937_64 random(seed * 77 + 1);
  for (int call = 0; call < 10; ++call) {
    const auto n = static_cast<int64_t>(2 + random() % 12);
    const SeedScope scope(seed + static_cast<uint64_t>(call));
    const Tensor x = random::normal({n, kColumns}), y = random::normal({n, kColumns});
    const std::size_t before = f.trace_count();
    const Generator at = ambient().generator;
    const Tensor staged = f(x, y);
    ambient().generator = at;
    const Tensor want = plain(x, y);
    ASSERT_TRUE(same_value(staged, want)) << program.text() << "\nat n = " << n << "\n"
                                          << f.explain() << staged << "\n"
                                          << want;
    if (before < 2) continue;
    ++(f.trace_count() == before ? count.served : count.traced);
  }
}

// Calls at two sizes, which make a symbolic graph, and then at further ones: `staged`, which runs
// f, has the bits of `plain` at each. Counts how many of the further sizes were traced; at the
// smallest sizes a program may have parts of size 1 or 0, which no symbolic graph serves.
constexpr int64_t kLeastCounted = 5;
template <class F, class Staged, class Plain>
void check_at_sizes(const Program& program, const F& f, const Staged& staged, const Plain& plain,
                    uint64_t seed, Count& count) {
  for (const int64_t n : {7, 10, 8, 13, 16, 5, 3, 2}) {
    const SeedScope scope(seed + static_cast<uint64_t>(n));
    const Tensor x = random::normal({n, kColumns}), y = random::normal({n, kColumns});
    const std::size_t before = f.trace_count();
    const Generator at = ambient().generator;
    const auto [a, b] = staged(x, y);
    ambient().generator = at;
    const auto [wa, wb] = plain(x, y);
    ASSERT_TRUE(same_value(a, wa) && same_value(b, wb))
        << program.text() << "\nat n = " << n << "\n"
        << f.explain();
    if (before < 2 || n < kLeastCounted) continue;
    ++(f.trace_count() == before ? count.served : count.traced);
  }
}

TEST(RandomSizes, GiveTheSameBitsAtAllSizes) {
  const uint64_t first = from_environment("ETUDE_TEST_SEED", 0);
  const uint64_t cases = from_environment("ETUDE_TEST_CASES", 400);
  Count blind, looking;
  for (uint64_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    check(Program(seed, false), seed, blind);
    if (seed % 4 == 0) check(Program(seed, true), seed, looking);
  }
  fmt::print(
      "served by symbolic graphs: {} of {} calls; where host code looks at sizes: {} of {}\n",
      blind.served, blind.served + blind.traced, looking.served, looking.served + looking.traced);
  if (cases < 100) return;  // too few to count
  EXPECT_GT(blind.served, 19 * blind.traced);
}

// The gradients of a program, staged with it, and of the staged program.
TEST(RandomSizes, GiveTheSameGradientsAtAllSizes) {
  const uint64_t first = from_environment("ETUDE_TEST_SEED", 0);
  const uint64_t cases = from_environment("ETUDE_TEST_CASES", 200);
  Count whole, around;
  for (uint64_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    const Program program(seed, false);
    const auto gradients = [&](const auto& f, const Tensor& x, const Tensor& y) {
      const auto [a, b] =
          gradient([&](const Tensor& p, const Tensor& q) { return sum(f(p, q) * 0.5F); }, x, y);
      return std::tuple<Tensor, Tensor>(a, b);
    };
    const auto plain = [&](const Tensor& x, const Tensor& y) { return program.run(x, y); };
    const auto want = [&](const Tensor& x, const Tensor& y) { return gradients(plain, x, y); };
    const auto inside = function<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&)>(want);
    check_at_sizes(program, inside, inside, want, seed, whole);
    const auto f = function<Tensor(const Tensor&, const Tensor&)>(plain);
    const auto outside = [&](const Tensor& x, const Tensor& y) { return gradients(f, x, y); };
    check_at_sizes(program, f, outside, want, seed, around);
  }
  fmt::print("gradients served by symbolic graphs: {} of {}, of staged programs: {} of {}\n",
             whole.served, whole.served + whole.traced, around.served,
             around.served + around.traced);
  EXPECT_EQ(whole.traced + around.traced, 0);
  EXPECT_GE(whole.served + around.served, static_cast<int>(8 * cases));
}

}  // namespace
}  // namespace etude
