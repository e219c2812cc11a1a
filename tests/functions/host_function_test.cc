// SPDX-License-Identifier: Apache-2.0
// host_function(): host code as a call, in plain programs, in graphs, and in their derivatives.
#include <atomic>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/etude.h"
#include "etude/graph/binary.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "tests/expect_error.h"

namespace etude::host_function_test {

using tests::contains;
using tests::expect_error;
using tests::thrown_by;

const TensorSpec kNumber{{}, kFloat32};

Tensor huber_of(const Tensor& x, const Tensor& m) {
  if (abs(x).item<float>() <= m.item<float>()) return x * x;
  return m * (2.0F * abs(x) - m);
}

// spec: V49.c
TEST(HostFunction, ArgumentsAreValues) {
  const auto f = host_function(
      [](Tensor x) {
        x *= 2.0F;
        x.at(0) = 9.0F;
        return x;
      },
      TensorSpec{{3}, kFloat32});
  const auto body = [&](const Tensor& x) {
    const Tensor y = x + 1.0F;
    return std::tuple(y, f(y), f(x));
  };
  const Tensor x = ones({3});
  const auto expect = [&](const std::tuple<Tensor, Tensor, Tensor>& made) {
    EXPECT_TRUE(same_value(std::get<0>(made), full({3}, 2.0F)));
    EXPECT_TRUE(same_value(std::get<1>(made), Tensor({9.0F, 4.0F, 4.0F})));
    EXPECT_TRUE(same_value(std::get<2>(made), Tensor({9.0F, 2.0F, 2.0F})));
    EXPECT_TRUE(same_value(x, ones({3})));
  };
  expect(body(x));
  const auto staged = function(body);
  for (int call = 0; call < 2; ++call) expect(staged(x));
  const LazyScope lazy;
  expect(body(x));
}

// spec: PY-01
TEST(HostFunction, APlainCallHasTheValueAndTheDerivativesOfItsCallable) {
  const auto f = host_function([](const Tensor& x) { return x * x; }, kNumber);
  const auto [value, slope] =
      value_with_gradient([&](const Tensor& x) { return f(x); }, Tensor(3.0F));
  EXPECT_EQ(value.item<float>(), 9);
  EXPECT_EQ(slope.item<float>(), 6);
  const auto first = [&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return f(y); })(x);
  };
  EXPECT_EQ(gradient(first)(Tensor(3.0F)).item<float>(), 2);
  const LazyScope lazy;
  EXPECT_EQ(gradient([&](const Tensor& x) { return f(x); })(Tensor(3.0F)).item<float>(), 6);
}

// spec: PY-02
TEST(HostFunction, AGraphRunsItAtEachExecution) {
  int runs = 0;
  const auto f = host_function(
      [&](const Tensor& x) {
        ++runs;
        return x + 1.0F;
      },
      kNumber);
  const auto g = function([&](const Tensor& x) {
    f(x);  // its result is not used
    return f(x) * 2.0F;
  });
  for (int call = 1; call <= 3; ++call) {
    EXPECT_EQ(g(Tensor(float(call))).item<float>(), 2 * (call + 1));
    EXPECT_EQ(runs, 2 * call);
  }
  EXPECT_EQ(g.trace_count(), 1U);
}

// spec: PY-03
TEST(HostFunction, AStagedCallHasDerivatives) {
  const auto norm =
      host_function([](const Tensor& x, const Tensor& y) { return x * x + y * y; }, kNumber);
  const auto staged = function([&](const Tensor& x, const Tensor& y) { return norm(x, y) + 1.0F; });
  GradientTape tape;
  const Tensor x(3.0F), y(4.0F);
  tape.watch(x);
  tape.watch(y);
  const auto [dx, dy] = tape.gradient(staged(x, y), std::tuple(x, y));
  EXPECT_EQ(dx.item<float>(), 6);
  EXPECT_EQ(dy.item<float>(), 8);
  // The tape inside of the function, and decisions of the host.
  const auto huber = host_function(huber_of, kNumber);
  const auto slope = function([&](const Tensor& at) {
    return value_with_gradient([&](const Tensor& z) { return huber(z, Tensor(2.0F)); }, at);
  });
  EXPECT_EQ(slope(Tensor(1.0F)).first.item<float>(), 1);
  EXPECT_EQ(slope(Tensor(1.0F)).second.item<float>(), 2);
  EXPECT_EQ(slope(Tensor(5.0F)).first.item<float>(), 16);
  EXPECT_EQ(slope(Tensor(5.0F)).second.item<float>(), 4);
  EXPECT_EQ(slope.trace_count(), 1U);
}

// spec: PY-03
TEST(HostFunction, AnIntegerInputHasNoGradient) {
  const auto power = host_function(
      [](const Tensor& x, const Tensor& n) {
        Tensor out(1.0F);
        for (int i = 0; i < n.item<int>(); ++i) out = out * x;
        return out;
      },
      kNumber);
  const auto staged = function([&](const Tensor& x, const Tensor& n) { return power(x, n); });
  for (const bool is_staged : {false, true}) {
    GradientTape tape;
    const Tensor x(2.0F), n(3);
    tape.watch(x);
    const Tensor y = is_staged ? staged(x, n) : power(x, n);
    const auto [dx, dn] = tape.gradient(y, std::tuple(x, n));
    EXPECT_EQ(dx.item<float>(), 12);
    EXPECT_FALSE(dn.has_value());
  }
}

struct Pair {
  Tensor sum, product;
};

// spec: PY-04
TEST(HostFunction, ResultsAreTensorsOfTheDeclaredTypes) {
  const auto pair = host_function(
      [](const Tensor& x) {
        return Pair{x + x, astype(x * x, kFloat64)};
      },
      {kNumber, TensorSpec{{}, kFloat64}}, {.name = "pair"});
  const auto staged = function([&](const Tensor& x) {
    const Pair p = pair(x);
    return std::tuple(p.sum, p.product);
  });
  EXPECT_EQ(std::get<0>(staged(Tensor(3.0F))).item<float>(), 6);
  EXPECT_EQ(std::get<1>(staged(Tensor(3.0F))).item<double>(), 9);
  EXPECT_EQ(pair(Tensor(3.0F)).product.dtype(), kFloat64);
  int runs = 0;
  const auto none = host_function([&](const Tensor&) { ++runs; });
  const auto only_runs = function([&](const Tensor& x) {
    none(x);
    return x;
  });
  only_runs(Tensor(1.0F));
  only_runs(Tensor(1.0F));
  none(Tensor(1.0F));
  EXPECT_EQ(runs, 3);
}

template <class F>
void expect_both(const F& f, ErrorCode code, const std::vector<std::string_view>& fragments) {
  expect_error([&] { f(Tensor(1.0F)); }, code, fragments);
  const auto staged = function([&](const Tensor& x) { return f(x); });
  expect_error([&] { staged(Tensor(1.0F)); }, code, fragments);
}

// spec: PY-04
TEST(HostFunction, ResultsOfOtherTypesAreRefused) {
  const auto dtype =
      host_function([](const Tensor& x) { return astype(x, kFloat64); }, kNumber, {.name = "h"});
  expect_both(
      dtype, ErrorCode::kInvalidArgument,
      {"host_function 'h': its callable returned float64[] as result 0, which was declared as "
       "float32[]",
       "host_function_test.cc:"});
  const auto shape = host_function([](const Tensor& x) { return stack({x, x}); }, kNumber);
  expect_both(shape, ErrorCode::kInvalidArgument, {"returned float32[2] as result 0", "float32[]"});
  const auto count = host_function(
      [](const Tensor& x) {
        return std::vector<Tensor>{x, x};
      },
      kNumber);
  expect_both(count, ErrorCode::kInvalidArgument,
              {"returned 2 results (float32[], float32[]), but 1 (float32[]) were declared"});
  const auto absent = host_function([](const Tensor&) { return Tensor(); }, kNumber);
  expect_both(absent, ErrorCode::kInvalidArgument, {"returned nothing as result 0"});
  expect_error(
      [] {
        host_function([](const Tensor& x) { return x; }, TensorSpec{{kAny}, kFloat32});
      },
      ErrorCode::kInvalidArgument, {"result 0 was declared as float32[?]", "declare each"});
}

struct Odd {
  int number;
};

// spec: PY-05
TEST(HostFunction, ExceptionsBecomeErrorsWithTheirCause) {
  const auto code_of = [](const auto& thrown) {
    const auto f = host_function(
        [thrown](const Tensor& x) {
          if (x.size() > 0) throw thrown;
          return x;
        },
        kNumber, {.name = "faulty"});
    const auto staged = function([&](const Tensor& x) { return f(x); });
    const Error plain = thrown_by([&] { f(Tensor(1.0F)); });
    const Error error = thrown_by([&] { staged(Tensor(1.0F)); });
    EXPECT_EQ(to_string(plain.code()), to_string(error.code()));
    EXPECT_TRUE(contains(error.what(), "host_function 'faulty': its callable threw"))
        << error.what();
    EXPECT_TRUE(contains(error.what(), "host_function_test.cc:")) << error.what();
    for (const Error& each : {plain, error}) {
      EXPECT_THROW(std::rethrow_exception(each.cause()), std::decay_t<decltype(thrown)>);
    }
    return error;
  };
  EXPECT_EQ(code_of(std::invalid_argument("bad radius")).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(contains(code_of(std::invalid_argument("bad radius")).what(),
                       "std::invalid_argument: bad radius"));
  EXPECT_EQ(code_of(std::domain_error("d")).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(std::bad_cast()).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(std::out_of_range("o")).code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(code_of(std::bad_alloc()).code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of(std::runtime_error("r")).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of(Odd{3}).code(), ErrorCode::kFailedPrecondition);
}

// spec: PY-05
TEST(HostFunction, AnErrorOfEtudeKeepsItsCodeAndItsLine) {
  int line = 0;
  const auto f = host_function(
      [&](const Tensor& x) {
        line = __LINE__ + 1;
        return reshape(x, {5});
      },
      kNumber, {.name = "own"});
  const auto staged = function([&](const Tensor& x) { return f(x); });
  const Error error = thrown_by([&] { staged(ones({2})); });
  EXPECT_EQ(to_string(error.code()), to_string(ErrorCode::kInvalidArgument));
  EXPECT_EQ(error.op(), "reshape");
  EXPECT_EQ(error.where().line, line);
  EXPECT_TRUE(contains(error.what(), "in function 'own'")) << error.what();
}

TEST(Error, CopiesShareTheirTextUntilOneChanges) {
  Error first(ErrorCode::kNotFound, "text");
  Error second = first;
  second.name_op("op");
  EXPECT_STREQ(first.what(), "text");
  EXPECT_STREQ(second.what(), "op: text");
  const Error moved = std::move(second);
  EXPECT_STREQ(second.what(), "op: text");  // NOLINT(bugprone-use-after-move): a copy, as stated
  EXPECT_EQ(moved.cause(), nullptr);
}

// spec: PY-06
TEST(HostFunction, LoopsRunItInEachStepInOrder) {
  std::vector<float> seen;
  const auto f = host_function(
      [&](const Tensor& x) {
        seen.push_back(x.item<float>());
        return x * x;
      },
      kNumber);
  const auto loop = function([&](const Tensor& x) {
    return while_loop([](const Tensor& y) { return y < 100.0F; },
                      [&](const Tensor& y) { return f(y); }, x);
  });
  EXPECT_EQ(loop(Tensor(2.0F)).item<float>(), 256);
  EXPECT_EQ(seen, (std::vector<float>{2, 4, 16}));
  const Tensor slope = gradient([&](const Tensor& x) { return loop(x); })(Tensor(2.0F));
  EXPECT_EQ(slope.item<float>(), 8 * std::pow(2.0F, 7));
  const auto sums = function([&](const Tensor& xs) {
    return scan([&](const Tensor& c, const Tensor& x) { return std::pair(c + f(x), c); },
                Tensor(0.0F), xs)
        .first;
  });
  seen.clear();
  EXPECT_EQ(sums(Tensor({1.0F, 2.0F, 3.0F})).item<float>(), 14);
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  const Tensor slopes =
      gradient([&](const Tensor& xs) { return sums(xs); })(Tensor({1.0F, 2.0F, 3.0F}));
  EXPECT_TRUE(same_value(slopes, Tensor({2.0F, 4.0F, 6.0F})));
  const auto branch = function([&](const Tensor& x) {
    return cond(
        x > 0.0F, [&] { return f(x); }, [&] { return x; });
  });
  seen.clear();
  EXPECT_EQ(branch(Tensor(3.0F)).item<float>(), 9);
  EXPECT_EQ(branch(Tensor(-3.0F)).item<float>(), -3);
  EXPECT_EQ(seen, (std::vector<float>{3}));
}

// spec: PY-06
TEST(HostFunction, EachExecutionHasATapeOfItsOwn) {
  const auto cube = host_function([](const Tensor& x) { return x * x * x; }, kNumber);
  const auto slope = function([&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return cube(y) + cube(2.0F * y); })(x);
  });
  const auto staged = function([&](const Tensor& x) { return cube(x); });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 1; t <= 8; ++t) {
    threads.emplace_back([&, t] {
      const auto x = static_cast<float>(t);
      for (int i = 0; i < 50; ++i) {
        if (slope(Tensor(x)).item<float>() != 27 * x * x) ++wrong;
        GradientTape tape;  // and one without a backward pass
        const Tensor at(x);
        tape.watch(at);
        if (staged(at).item<float>() != x * x * x) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// spec: PY-07
TEST(HostFunction, GraphsOwnTheCallable) {
  const auto held = std::make_shared<int>(7);
  for (int i = 0; i < 1000; ++i) {
    const auto f =
        host_function([held](const Tensor& x) { return x * static_cast<float>(*held); }, kNumber);
    const auto staged = function([f](const Tensor& x) { return f(x) + 1.0F; });
    EXPECT_EQ(staged(Tensor(1.0F)).item<float>(), 8);
    if (i >= 20) continue;
    const auto slope = gradient([&](const Tensor& x) { return staged(x); });
    EXPECT_EQ(slope(Tensor(1.0F)).item<float>(), 7);
  }
  EXPECT_EQ(held.use_count(), 1);
}

// spec: PY-09
TEST(HostFunction, AGraphWithOneIsShownButNotWritten) {
  const auto f = host_function([](const Tensor& x) { return x; }, kNumber, {.name = "mine"});
  const auto staged = function([&](const Tensor& x) { return f(x); });
  const int line = __LINE__ - 1;
  const Graph& graph = staged.trace(Tensor(1.0F)).graph();
  expect_error([&] { to_binary(graph); }, ErrorCode::kUnimplemented,
               {"host_function 'mine' made at", "neither be written to a file nor compiled ahead",
                "host_function_test.cc:" + std::to_string(line)});
  const std::string text = to_text(graph);
  EXPECT_TRUE(contains(text, "host_function 'mine' made at")) << text;
  expect_error([&] { parse_graph(text); }, ErrorCode::kUnimplemented,
               {"attribute 'function'", "only in the process that made it"});
}

// spec: PY-10
TEST(HostFunction, ListedVariablesGetGradients) {
  const Variable w(Tensor(3.0F), {.name = "w"});
  const auto f = host_function([&](const Tensor& x) { return w * w * x; }, kNumber,
                               {.name = "f", .variables = {w}});
  const auto staged = function([&](const Tensor& x) { return f(x); });
  for (const bool is_staged : {false, true}) {
    GradientTape tape;
    const Tensor y = is_staged ? staged(Tensor(2.0F)) : f(Tensor(2.0F));
    EXPECT_EQ(y.item<float>(), 18);
    EXPECT_EQ(tape.gradient(y, w).item<float>(), 12);
  }
  // The value at this point of the program, which the Variable gets when the call ends.
  const auto later = function([&](const Tensor& x) {
    w.assign(5.0F);
    return f(x);
  });
  EXPECT_EQ(later(Tensor(1.0F)).item<float>(), 25);
  EXPECT_EQ(w.read().item<float>(), 5);
}

// spec: PY-10
TEST(HostFunction, AnUnlistedTrainableVariableIsRefusedUnderATape) {
  const Variable w(Tensor(3.0F), {.name = "w"}), fixed(Tensor(2.0F), {.trainable = false});
  const auto f =
      host_function([&](const Tensor& x) { return w * x * fixed; }, kNumber, {.name = "f"});
  const auto staged = function([&](const Tensor& x) { return f(x); });
  EXPECT_EQ(staged(Tensor(2.0F)).item<float>(), 12);  // without a tape
  const std::vector<std::string_view> texts = {"reads Variable 'w'", ".variables = {v}",
                                               "while a derivative is taken"};
  expect_error(
      [&] {
        GradientTape tape;
        staged(Tensor(2.0F));
      },
      ErrorCode::kFailedPrecondition, texts);
  expect_error([&] { gradient([&](const Tensor& x) { return staged(x); })(Tensor(2.0F)); },
               ErrorCode::kFailedPrecondition, texts);
}

// spec: PY-10
TEST(HostFunction, SecondDerivativesOfAStagedCallAreRefused) {
  const auto f = host_function([](const Tensor& x) { return x * x * x; }, kNumber, {.name = "f"});
  const auto staged = function([&](const Tensor& x) { return f(x); });
  const auto slope = [&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return staged(y); })(x);
  };
  EXPECT_EQ(slope(Tensor(2.0F)).item<float>(), 12);
  expect_error([&] { gradient(slope)(Tensor(2.0F)); }, ErrorCode::kUnimplemented,
               {"host_function 'f'", "second derivative", "custom_gradient"});
}

TEST(HostFunction, ForwardModeRunsItWithTangents) {
  int runs = 0;
  const auto f = host_function(
      [&](const Tensor& x, const Tensor& y) {
        ++runs;
        return x * x * y;
      },
      kNumber);
  const auto staged = function([&](const Tensor& x, const Tensor& y) { return f(x, y); });
  const auto plain =
      jvp([&](const Tensor& x) { return f(x, Tensor(5.0F)); }, Tensor(3.0F), Tensor(1.0F));
  const auto graph =
      jvp([&](const Tensor& x) { return staged(x, Tensor(5.0F)); }, Tensor(3.0F), Tensor(1.0F));
  EXPECT_EQ(plain.second.item<float>(), 30);
  EXPECT_EQ(graph.first.item<float>(), 45);
  EXPECT_EQ(graph.second.item<float>(), 30);
  EXPECT_EQ(runs, 3);
}

TEST(HostFunction, AVmapRunsItForEachExample) {
  std::vector<float> seen;
  const auto f = host_function(
      [&](const Tensor& x) {
        seen.push_back(x.item<float>());
        return x * x;
      },
      kNumber);
  const Tensor xs({1.0F, 2.0F, 3.0F});
  const auto squares = vmap([&](const Tensor& x) { return f(x); });
  EXPECT_TRUE(same_value(squares(xs), xs * xs));
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  const auto staged = function([&](const Tensor& x) { return squares(x); });
  EXPECT_TRUE(same_value(staged(xs), xs * xs));
  const auto slopes = vmap(gradient([&](const Tensor& x) { return f(x); }));
  EXPECT_TRUE(same_value(slopes(xs), 2.0F * xs));
}

TEST(HostFunction, ItSeesTheSettingsOfTheCallerAndItsOwnFloatMode) {
  bool is_training_there = false;
  float denormal = 0;
  const auto f = host_function(
      [&](const Tensor& x) {
        is_training_there = is_training();
        volatile float tiny = 1e-38F;
        denormal = tiny / 16;
        return x;
      },
      kNumber);
  const auto staged = function([&](const Tensor& x) { return f(x); });
  const PhaseScope training(Phase::kTraining);
  staged(Tensor(1.0F));
  EXPECT_TRUE(is_training_there);
  EXPECT_GT(denormal, 0);
}

TEST(HostFunction, DrawsInARunForADerivativeAreRefused) {
  const auto f = host_function([](const Tensor& x) { return x * random::uniform({}); }, kNumber);
  const auto staged = function([&](const Tensor& x) { return f(x); });
  set_seed(1);
  const float first = staged(Tensor(1.0F)).item<float>();
  EXPECT_NE(staged(Tensor(1.0F)).item<float>(), first);
  expect_error([&] { gradient([&](const Tensor& x) { return staged(x); })(Tensor(1.0F)); },
               ErrorCode::kFailedPrecondition, {"draws random numbers", "pass a key"});
}

struct Model {
  Tensor w;
  int power = 2;
};

TEST(HostFunction, TakesStructuresAndHostValues) {
  const auto f = host_function(
      [](const Model& model, const Tensor& x) {
        Tensor out = model.w;
        for (int i = 0; i < model.power; ++i) out = out * x;
        return out;
      },
      kNumber);
  const auto staged = function([&](const Model& model, const Tensor& x) { return f(model, x); });
  EXPECT_EQ(staged({Tensor(2.0F), 3}, Tensor(2.0F)).item<float>(), 16);
  EXPECT_EQ(staged({Tensor(2.0F), 1}, Tensor(2.0F)).item<float>(), 4);
}

}  // namespace etude::host_function_test
