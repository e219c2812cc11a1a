// SPDX-License-Identifier: Apache-2.0
// Random programs of tensors: staged, lazily and on other devices they give the same bits and print
// the same lines as eagerly, and so do their gradients, tangents and batches, whatever passes run.
// Program n is made from seed n alone; a failure prints it:
//
//   ETUDE_TEST_SEED=4711 ETUDE_TEST_CASES=1 build/dev/bin/random_programs_test
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/devices/sim/sim_device.h"
#include "tests/functions/printing.h"
#include "tests/lazy_options.h"

namespace etude {
namespace {

using tests::Printing;

constexpr int64_t kRows = 3, kColumns = 4;

// The state of a program: matrices [3, 4], not square, and Variables of that shape.
struct State {
  std::vector<Tensor> values;
  std::vector<Variable> variables;
};

enum class Step {
  kAdd,
  kMultiply,
  kTanh,
  kMatmul,
  kSum,
  kWhere,
  kSort,
  kWriteRow,
  kUpdateInPlace,
  kReshape,
  kDraw,
  kReadVariable,
  kAssign,
  kAssignAdd,
  kAssignRow,
  kCallInner,
  kGradient,
  kVmap,
  kCopy,
  kStop,
  kCond,
  kFold,
  kScan,
  kWhile,
  kLoopWithState,
  kRule,
  kPrint,
  kAssert,
  kEnd,
};

struct Program {
  explicit Program(uint64_t seed) : seed_(seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
    const int n = 4 + below(12);
    for (int i = 0; i < n; ++i) {
      lines.push_back(
          {static_cast<Step>(below(static_cast<uint64_t>(Step::kEnd))), below(1000), below(1000)});
    }
  }
  struct Line {
    Step step;
    int a, b;  // which values or Variables, among those there are
  };

  // Makes the same calls in every mode.
  Tensor run(State& s, bool has_state = true) const {
    for (const Line& line : lines) step(s, line, has_state);
    Tensor total = s.values.back();
    for (std::size_t i = 0; i + 1 < s.values.size(); i += 3) total = total + s.values[i] * 0.5F;
    return total;
  }

  std::string text() const {
    std::string out = fmt::format("ETUDE_TEST_SEED={} ETUDE_TEST_CASES=1:", seed_);
    for (const Line& l : lines)
      out += fmt::format(" {}({}, {})", static_cast<int>(l.step), l.a, l.b);
    return out;
  }

  std::vector<Line> lines;

 private:
  static Tensor inner(const Tensor& x, const Tensor& y) { return tanh(x - y) * x + 0.25F; }

  void step(State& s, const Line& line, bool has_state) const {
    const auto at = [&](int i) { return static_cast<std::size_t>(i) % s.values.size(); };
    const Tensor x = s.values[at(line.a)], y = s.values[at(line.b)];
    switch (line.step) {
      case Step::kAdd:
        return s.values.push_back(x + y);
      case Step::kMultiply:
        return s.values.push_back(x * y * 0.5F);
      case Step::kTanh:
        return s.values.push_back(tanh(x));
      case Step::kMatmul:
        return s.values.push_back(matmul(matmul(x, y, {.transpose_y = true}), x) * 0.1F);
      case Step::kSum:
        return s.values.push_back(x - mean(y, {.axis = {1}, .keepdims = true}));
      case Step::kWhere:
        return s.values.push_back(where(x > y, x, y * 0.75F));
      case Step::kSort:
        return s.values.push_back(sort(x) + y);
      case Step::kWriteRow: {
        Tensor z = x;
        z.at(line.b % kRows) = y.at(0);
        return s.values.push_back(z);
      }
      case Step::kUpdateInPlace:
        s.values[at(line.a)] += y;
        return;
      case Step::kReshape:
        return s.values.push_back(
            reshape(permute_dims(reshape(x, {2, 2, 3}), {2, 0, 1}), {kRows, kColumns}));
      case Step::kDraw:
      case Step::kReadVariable:
      case Step::kAssign:
      case Step::kAssignAdd:
      case Step::kAssignRow:
      case Step::kLoopWithState:
        return state_step(s, line, x, y, has_state);
      case Step::kCond:
      case Step::kFold:
      case Step::kScan:
      case Step::kWhile:
      case Step::kRule:
        return s.values.push_back(control_flow(line, x, y));
      case Step::kCallInner: {
        static const auto staged = function(inner);
        return s.values.push_back(staged(x, y));
      }
      case Step::kGradient:
      case Step::kVmap:
        return s.values.push_back(derived(line, x, y));
      case Step::kCopy:
        return s.values.push_back(x);
      case Step::kStop:
        return s.values.push_back(stop_gradient(x) * y);
      case Step::kPrint:
      case Step::kAssert:
        return effect_step(line, x, y);
      case Step::kEnd:
        break;
    }
  }

  static Tensor derived(const Line& line, const Tensor& x, const Tensor& y) {
    if (line.step == Step::kGradient) {
      return gradient([&](const Tensor& z) { return sum(tanh(z * y) * z); }, x);
    }
    return vmap([](const Tensor& row) { return row / (1.0F + sum(row * row)); })(x) + y;
  }

  // An assertion that holds, or a line of its own, of a branch, of each step of a loop.
  static void effect_step(const Line& line, const Tensor& x, const Tensor& y) {
    if (line.step == Step::kAssert) {
      return assert_true(logical_or(x == x, isnan(y)), "a NaN came from elsewhere");
    }
    if (line.b % 3 == 0) return print("x", x.at(line.a % kRows), line.b);
    if (line.b % 3 == 1) {
      return cond(
          sum(x) > sum(y), [&] { print("first", x.at(0)); }, [&] { print("second", sum(y)); });
    }
    fold(
        [&](const Tensor& state, const Tensor& row) {
          print("row", row, state);
          if (line.a % 2 == 0) print("same", y.at(0));
          return state + sum(row);
        },
        Tensor(0.0F), x);
  }

  static Tensor control_flow(const Line& line, const Tensor& x, const Tensor& y) {
    switch (line.step) {
      case Step::kRule:
        return own_derivative(line, x, y);
      case Step::kCond:
        return cond(
            sum(x) > 0.0F, [&] { return x * y + 0.5F * x; }, [&] { return y - x * x * 0.25F; });
      case Step::kFold:
        return fold([&](const Tensor& state,
                        const Tensor& row) { return tanh(state * row + y * 0.5F) - row * y; },
                    x, y);
      case Step::kScan: {
        const auto [last, rows] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = state * 0.5F + row * mean(x);
              return std::pair(next, cond(
                                         sum(next) > 0.0F, [&] { return tanh(next) * row; },
                                         [&] { return next - row; }));
            },
            mean(x, {.axis = {0}}), y);
        return rows + last;
      }
      default:
        return while_loop([](const Tensor& state) { return sum(state * state) < 40.0F; },
                          [&](const Tensor& state) { return state * 1.5F + y * 0.1F * x; }, x,
                          {.max_iterations = 6});
    }
  }

  // Calls with their own derivatives.
  static Tensor own_derivative(const Line& line, const Tensor& x, const Tensor& y) {
    if (line.b % 3 == 2) {
      return recompute_grad(
          [](const Tensor& a, const Tensor& b) { return tanh(a * b) * a - 0.5F * tanh(b); })(x, y);
    }
    const auto rule = custom_gradient([](const Tensor& a, const Tensor& b) {
      const Tensor t = tanh(a);
      return std::pair{t * b, [=](const Tensor& dy) {
                         return std::tuple{dy * (1.0F - t) * b, dy * t + dy * a * 0.125F};
                       }};
    });
    if (line.b % 4 == 3) {
      return cond(
          sum(x) > 0.0F, [&] { return rule(x, y); }, [&] { return y * 0.75F; });
    }
    if (line.b % 3 == 0) {
      return vmap([&](const Tensor& row) { return rule(row, y.at(line.b % kRows)); })(x);
    }
    return gradient([&](const Tensor& z) { return sum(rule(z, y) * z); }, x) + rule(x, y);
  }

  // Random numbers and Variables.
  static void state_step(State& s, const Line& line, const Tensor& x, const Tensor& y,
                         bool has_state) {
    Variable& v = s.variables[static_cast<std::size_t>(line.a) % s.variables.size()];
    switch (line.step) {
      case Step::kDraw:
        if (has_state) s.values.push_back(x + random::normal({kRows, kColumns}) * 0.1F);
        return;
      case Step::kReadVariable:
        return s.values.push_back(v * x);
      case Step::kAssign:
        if (has_state) v.assign(tanh(x));
        return;
      case Step::kAssignAdd:
        if (has_state) v.assign_add(y * 0.125F);
        return;
      case Step::kAssignRow:
        if (has_state) v.at(line.b % kRows) = x.at(1);
        return;
      case Step::kLoopWithState:
        if (!has_state) return;
        return s.values.push_back(fold(
            [&](const Tensor& state, const Tensor& row) {
              cond(
                  sum(row) > 0.0F, [&] { v.assign_add(row * 0.125F); }, [&] {});
              return state * 0.5F + v * random::uniform({kColumns});
            },
            x, y));
      default:
        return;
    }
  }

  uint64_t seed_;
};

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<Tensor> inputs(uint64_t seed) {
  const SeedScope scope(seed);
  return {random::normal({kRows, kColumns}), random::normal({kRows, kColumns})};
}
std::vector<Variable> variables() {
  return {Variable(ones({kRows, kColumns})), Variable(full({kRows, kColumns}, 0.5))};
}

// The program as a staged function of its values, with the Variables of `state`.
auto staged_of(const Program& program, const State& state) {
  return function<Tensor(const std::vector<Tensor>&)>([&](const std::vector<Tensor>& x) {
    State s{x, state.variables};
    return program.run(s);
  });
}

#define EXPECT_SAME(a, b) \
  EXPECT_TRUE(same_value(a, b)) << program.text() << "\n" << (a) << "\n" << (b)

// Calls one after the other, with Variables and random numbers.
void check_calls(const Program& program, uint64_t seed) {
  State eager{{}, variables()}, staged{{}, variables()};
  const auto f = staged_of(program, staged);
  for (uint64_t call = 0; call < 3; ++call) {
    const std::vector<Tensor> x = inputs(seed + call);
    const auto run_eagerly = [&] {
      const SeedScope scope(call);
      eager.values = x;
      return program.run(eager);
    };
    const auto run_staged = [&] {
      const SeedScope scope(call);
      return f(x);
    };
    Printing printing;
    const Tensor found = run_staged();
    const std::vector<std::string> lines = printing.take();
    EXPECT_SAME(found, run_eagerly());
    EXPECT_EQ(lines, printing.take()) << program.text();
    for (std::size_t i = 0; i < eager.variables.size(); ++i) {
      EXPECT_SAME(staged.variables[i].read(), eager.variables[i].read());
    }
  }
  EXPECT_EQ(f.trace_count(), 1u) << program.text();
}

// A call that is cancelled by a line that it prints: nothing is assigned, and the next call is as
// if there had been none.
void check_cancelled_calls(const Program& program, uint64_t seed) {
  State eager{{}, variables()}, staged{{}, variables()};
  const auto f = staged_of(program, staged);
  const std::vector<Tensor> x = inputs(seed);
  {
    const SeedScope scope(1);
    const Cancellation enough;
    const Printing printing([enough] { enough.cancel(); });
    const CancelScope cancel(enough);
    try {
      f(x);
      return;  // nothing was printed, or the last call of all printed
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
    }
  }
  for (std::size_t i = 0; i < eager.variables.size(); ++i) {
    EXPECT_SAME(staged.variables[i].read(), eager.variables[i].read());
  }
  const Printing printing;
  const auto run_staged = [&] {
    const SeedScope scope(2);
    return f(x);
  };
  const auto run_eagerly = [&] {
    const SeedScope scope(2);
    eager.values = x;
    return program.run(eager);
  };
  EXPECT_SAME(run_staged(), run_eagerly());
}

// Derivatives of a program without state: around the staged call, and staged as a whole.
void check_derivatives(const Program& program, uint64_t seed) {
  const std::vector<Variable> fixed = variables();
  const auto plain = [&](const Tensor& x, const Tensor& y) {
    State s{{x, y}, fixed};
    return program.run(s, false);
  };
  const auto staged = function<Tensor(const Tensor&, const Tensor&)>(plain);
  const std::vector<Tensor> x = inputs(seed);
  const auto gradients = [](const auto& f, const Tensor& a, const Tensor& b) {
    return gradient([&](const Tensor& p, const Tensor& q) { return sum(f(p, q) * 0.5F); }, a, b);
  };
  Printing printing;
  const auto [wa, wb] = gradients(plain, x[0], x[1]);
  const std::vector<std::string> lines = printing.take();
  const auto [ga, gb] = gradients(staged, x[0], x[1]);
  EXPECT_EQ(printing.take(), lines) << program.text();
  EXPECT_SAME(ga, wa);
  EXPECT_SAME(gb, wb);
  const auto whole = function<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&)>(
      [&](const Tensor& a, const Tensor& b) {
        return std::tuple<Tensor, Tensor>(gradients(plain, a, b));
      });
  const auto [ha, hb] = whole(x[0], x[1]);
  EXPECT_EQ(printing.take(), lines) << program.text();
  EXPECT_SAME(ha, wa);
  EXPECT_SAME(hb, wb);
  const auto tangent = [&](const auto& f) {
    return jvp([&](const Tensor& p) { return f(p, x[1]); }, std::tuple(x[0]), std::tuple(x[1]))
        .second;
  };
  EXPECT_SAME(tangent(staged), tangent(plain));
  printing.take();
  const Tensor rows = stack({x[0], x[1], x[0] + x[1]});
  const auto batch = [&](const auto& f) {
    return vmap([&](const Tensor& p) { return f(p, x[1]); })(rows);
  };
  // The result of a loop without a step is the same for all examples, but a graph cannot know this.
  const auto different_lines = [&] {
    std::vector<std::string> out = printing.take();
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  };
  const Tensor found = batch(staged);
  const std::vector<std::string> batch_lines = different_lines();
  EXPECT_SAME(found, batch(plain));
  EXPECT_EQ(batch_lines, different_lines()) << program.text();
}

// How a lazy run of a program is made hard.
LazyOptions lazy_options_of(uint64_t seed) {
  LazyOptions options;
  options.cut_every = seed % 8;  // 0: never
  options.force_collisions = seed % 3 == 0;
  options.donate = seed % 5 != 0;
  options.op_by_op = seed % 11 == 10;
  options.max_compiles = 0;  // all of them are cut at the same lines
  options.background = seed % 4 == 1;
  return options;
}

// The calls recorded, and looked at here and there: the same values, lines and Variables.
void check_lazy(const Program& program, uint64_t seed) {
  const ChangedLazyOptions options([&](LazyOptions& o) { o = lazy_options_of(seed); });
  const LazyMetrics metrics;
  State eager{{}, variables()}, lazy{{}, variables()};
  for (uint64_t call = 0; call < 3; ++call) {
    const std::vector<Tensor> x = inputs(seed + call);
    const auto run = [&](State& state) {
      const SeedScope scope(call);
      state.values = x;
      return program.run(state);
    };
    Printing printing;
    Tensor found;
    std::vector<Tensor> values;
    {
      const LazyScope scope;
      found = run(lazy);
      if (seed % 2 == 0) lazy_barrier();
      values = lazy.values;
      if (call > 0) {
        EXPECT_EQ(values.front().to_vector<float>().size(), 12u);
      }
    }
    const std::vector<std::string> lines = printing.take();
    EXPECT_SAME(found, run(eager));
    EXPECT_EQ(lines, printing.take()) << program.text();
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_SAME(values[i], eager.values[i]);
    for (std::size_t i = 0; i < eager.variables.size(); ++i) {
      EXPECT_SAME(lazy.variables[i].read(), eager.variables[i].read());
    }
  }
  EXPECT_EQ(metrics.counts().fallbacks, 0) << program.text();
}

// A second CPU device for half of the programs, a device that runs calls later for the others.
Device device_of(uint64_t seed) {
  static const Device second = add_cpu_device();
  return seed % 2 == 0 ? second : sim::device();
}

// A program in a scope of a device that has its Variables, eagerly and staged. Some programs have
// their inputs there, others at home.
void check_calls_on(const Device& device, const Program& program, uint64_t seed) {
  const auto on_device = [&](const auto& run) {
    const DeviceScope on(device);
    return run();
  };
  const auto state_there = [&] { return on_device([] { return State{{}, variables()}; }); };
  State home{{}, variables()}, eager = state_there(), staged = state_there();
  const auto f = staged_of(program, staged);
  for (uint64_t call = 0; call < 2; ++call) {
    const std::vector<Tensor> x = inputs(seed + call);
    std::vector<Tensor> there = x;
    if (seed % 4 < 2) {
      for (Tensor& t : there) t = t.to(device);
    }
    const auto run = [&](State& state, const std::vector<Tensor>& values) {
      const SeedScope scope(call);
      state.values = values;
      return program.run(state);
    };
    Printing printing;
    const Tensor want = run(home, x);
    const std::vector<std::string> lines = printing.take();
    const Tensor found = on_device([&] { return run(eager, there); });
    EXPECT_EQ(printing.take(), lines) << program.text();
    EXPECT_SAME(found.to("cpu:0"), want);
    const Tensor by_graph = on_device([&] {
      const SeedScope scope(call);
      return f(there);
    });
    EXPECT_EQ(printing.take(), lines) << program.text();
    EXPECT_SAME(by_graph.to("cpu:0"), want);
    for (std::size_t i = 0; i < home.variables.size(); ++i) {
      EXPECT_EQ(eager.variables[i].device(), device);
      EXPECT_EQ(staged.variables[i].device(), device);
      EXPECT_SAME(eager.variables[i].read().to("cpu:0"), home.variables[i].read());
      EXPECT_SAME(staged.variables[i].read().to("cpu:0"), home.variables[i].read());
    }
  }
  EXPECT_EQ(f.trace_count(), 1u) << program.text();
}

// Derivatives of a program without state whose inputs are on the device. Constants of the program
// come from home.
void check_derivatives_on(const Device& device, const Program& program, uint64_t seed) {
  const std::vector<Variable> fixed = variables();
  std::vector<Variable> fixed_there;
  for (const Variable& v : fixed) fixed_there.emplace_back(v.read().to(device));
  const auto program_of = [&](const std::vector<Variable>& state) {
    return [&program, state](const Tensor& x, const Tensor& y) {
      State s{{x, y}, state};
      return program.run(s, false);
    };
  };
  const auto plain = program_of(fixed), there = program_of(fixed_there);
  const auto staged = function<Tensor(const Tensor&, const Tensor&)>(there);
  const std::vector<Tensor> x = inputs(seed);
  const Tensor a = x[0].to(device), b = x[1].to(device);
  const Printing printing;
  const auto gradients = [](const auto& f, const Tensor& p, const Tensor& q) {
    return gradient([&](const Tensor& s, const Tensor& t) { return sum(f(s, t) * 0.5F); }, p, q);
  };
  const auto tangent = [](const auto& f, const Tensor& p, const Tensor& q) {
    return jvp([&](const Tensor& s) { return f(s, q); }, std::tuple(p), std::tuple(q)).second;
  };
  const auto [wa, wb] = gradients(plain, x[0], x[1]);
  const Tensor wt = tangent(plain, x[0], x[1]);
  const auto compare = [&](const char* mode, const auto& f) {
    SCOPED_TRACE(mode);
    const DeviceScope on(device);
    const auto [ga, gb] = gradients(f, a, b);
    EXPECT_SAME(ga.to("cpu:0"), wa);
    EXPECT_SAME(gb.to("cpu:0"), wb);
    EXPECT_SAME(tangent(f, a, b).to("cpu:0"), wt);
  };
  compare("eager", there);
  compare("staged", staged);
}

std::vector<std::string> switched_off() {
  std::vector<std::string> out = {"", "all"};
  for (const Pass& pass : passes()) {
    if (!pass.is_needed) out.emplace_back(pass.name);
  }
  return out;
}

TEST(RandomPrograms, GiveTheSameBitsStaged) {
  const uint64_t first = from_environment("ETUDE_TEST_SEED", 0);
  const uint64_t cases = from_environment("ETUDE_TEST_CASES", 1000);
  for (uint64_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    const Program program(seed);
    SCOPED_TRACE(program.text());
    // With all passes on, and with each of them off in turn.
    static const std::vector<std::string> switches = switched_off();
    const std::string& off = switches[seed % switches.size()];
    SCOPED_TRACE("passes off: " + off);
    const PassScope scope(off);
    check_calls(program, seed);
    check_cancelled_calls(program, seed);
    check_derivatives(program, seed);
  }
}

// spec: DV-07
TEST(RandomPrograms, GiveTheSameBitsOnOtherDevices) {
  const uint64_t first = from_environment("ETUDE_TEST_SEED", 0);
  const uint64_t cases = from_environment("ETUDE_TEST_CASES", 1000) / 2 + 1;
  for (uint64_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    const Program program(seed);
    const Device device = device_of(seed);
    SCOPED_TRACE(program.text() + " on " + device.to_string());
    check_calls_on(device, program, seed);
    check_derivatives_on(device, program, seed);
  }
}

// spec: Z22.a
TEST(RandomPrograms, GiveTheSameBitsLazily) {
  const uint64_t first = from_environment("ETUDE_TEST_SEED", 0);
  const uint64_t cases = from_environment("ETUDE_TEST_CASES", 1000);
  for (uint64_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    const Program program(seed);
    SCOPED_TRACE(program.text());
    check_lazy(program, seed);
  }
}

}  // namespace
}  // namespace etude
