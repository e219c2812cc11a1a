// SPDX-License-Identifier: Apache-2.0
// host_function() with arguments on other devices than cpu:0: the rows of host functions, each on a
// second CPU device and on a simulated device.
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/graph/binary.h"
#include "tests/devices/on_device.h"
#include "tests/expect_error.h"

namespace etude::device_host_test {

using tests::contains;
using tests::expect_error;
using tests::thrown_by;
using Floats = std::vector<float>;

const TensorSpec kNumber{{}, kFloat32};

class DeviceHost : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceHost, testing::Values(Other::kCpu, Other::kQueue),
                         name_of_other);

// spec: PY-01
TEST_P(DeviceHost, APlainCallIsADirectCall) {
  const auto f = host_function([](const Tensor& x) { return x * x; }, kNumber);
  const Tensor x = there(Tensor(3.0F));
  const auto [value, slope] = value_with_gradient([&](const Tensor& t) { return f(t); }, x);
  EXPECT_EQ(value.device(), device());
  EXPECT_EQ(value.item<float>(), 9);
  EXPECT_EQ(slope.device(), device());
  EXPECT_EQ(slope.item<float>(), 6);
}

// spec: PY-02
TEST_P(DeviceHost, AGraphRunsItAtEachExecution) {
  int runs = 0;
  const auto f = host_function(
      [&](const Tensor& x) {
        ++runs;
        return x + 1.0F;
      },
      kNumber);
  const auto g = function([&](const Tensor& x) { return f(x * 1.0F) * 2.0F; });
  for (int call = 1; call <= 3; ++call) {
    EXPECT_EQ(g(there(Tensor(float(call)))).item<float>(), 2 * (call + 1));
    EXPECT_EQ(runs, call);
  }
  EXPECT_EQ(g.trace_count(), 1U);
}

// spec: PY-03
TEST_P(DeviceHost, AStagedCallHasDerivatives) {
  const auto norm =
      host_function([](const Tensor& x, const Tensor& y) { return x * x + y * y; }, kNumber);
  const auto staged = function([&](const Tensor& x, const Tensor& y) { return norm(x, y) + 1.0F; });
  const Tensor x = there(Tensor(3.0F)), y = there(Tensor(4.0F));
  {
    GradientTape tape;
    tape.watch(x);
    tape.watch(y);
    const auto [dx, dy] = tape.gradient(staged(x, y), std::tuple(x, y));
    EXPECT_EQ(dx.device(), device());
    EXPECT_EQ(dx.item<float>(), 6);
    EXPECT_EQ(dy.item<float>(), 8);
  }
  const auto huber = host_function(
      [](const Tensor& at, const Tensor& m) {
        if (abs(at).item<float>() <= m.item<float>()) return at * at;
        return m * (2.0F * abs(at) - m);
      },
      kNumber);
  const auto slope = function([&](const Tensor& at) {
    return value_with_gradient([&](const Tensor& z) { return huber(z, Tensor(2.0F)); }, at);
  });
  EXPECT_EQ(slope(there(Tensor(1.0F))).first.item<float>(), 1);
  EXPECT_EQ(slope(there(Tensor(1.0F))).second.item<float>(), 2);
  EXPECT_EQ(slope(there(Tensor(5.0F))).second.item<float>(), 4);
  const auto power = host_function(
      [](const Tensor& at, const Tensor& n) {
        Tensor out(1.0F);
        for (int i = 0; i < n.item<int>(); ++i) out = out * at.to("cpu:0");
        return out;
      },
      kNumber);
  const auto staged_power = function([&](const Tensor& t, const Tensor& n) { return power(t, n); });
  for (const bool is_staged : {false, true}) {
    GradientTape tape;
    const Tensor base = there(Tensor(2.0F)), n = there(Tensor(3));
    tape.watch(base);
    const Tensor value = is_staged ? staged_power(base, n) : power(base, n);
    const auto [slope_of_base, slope_of_n] = tape.gradient(value, std::tuple(base, n));
    EXPECT_EQ(slope_of_base.item<float>(), 12);
    EXPECT_FALSE(slope_of_n.has_value());
  }
}

// spec: PY-04
TEST_P(DeviceHost, ResultsHaveTheDeclaredTypes) {
  const auto pair =
      host_function([](const Tensor& x) { return std::tuple(x + x, astype(x * x, kFloat64)); },
                    {kNumber, TensorSpec{{}, kFloat64}});
  const auto staged = function([&](const Tensor& x) {
    const auto [sum, product] = pair(x);
    return std::tuple(sum + x, product);
  });
  const auto [sum, product] = staged(there(Tensor(3.0F)));
  EXPECT_EQ(sum.device(), device());
  EXPECT_EQ(sum.item<float>(), 9);
  EXPECT_EQ(product.item<double>(), 9);
  const auto refused = [&](const auto& f, const std::vector<std::string_view>& texts) {
    const auto in_graph = function([&](const Tensor& x) { return f(x); });
    expect_error([&] { f(there(Tensor(1.0F))); }, ErrorCode::kInvalidArgument, texts);
    expect_error([&] { in_graph(there(Tensor(1.0F))); }, ErrorCode::kInvalidArgument, texts);
  };
  refused(host_function([](const Tensor& x) { return astype(x, kFloat64); }, kNumber),
          {"float64[]", "as result 0, which was declared as float32[]"});
  refused(host_function(
              [](const Tensor& x) {
                return std::vector<Tensor>{x, x};
              },
              kNumber),
          {"returned 2 results", "but 1 (float32[]) were declared"});
  int runs = 0;
  const auto none = host_function([&](const Tensor&) { ++runs; });
  const auto only_runs = function([&](const Tensor& x) {
    none(x);
    return x * 1.0F;
  });
  EXPECT_EQ(only_runs(there(Tensor(1.0F))).item<float>(), 1);
  EXPECT_EQ(runs, 1);
}

// spec: PY-05
TEST_P(DeviceHost, ExceptionsBecomeErrorsWithTheirCause) {
  const auto check = [&](const auto& thrown, ErrorCode code) {
    const auto f = host_function(
        [thrown](const Tensor& x) {
          if (x.size() > 0) throw thrown;
          return x;
        },
        kNumber, {.name = "faulty"});
    const auto staged = function([&](const Tensor& x) { return f(x * 2.0F); });
    const Error error = thrown_by([&] { staged(there(Tensor(1.0F))); });
    EXPECT_EQ(to_string(error.code()), to_string(code));
    EXPECT_TRUE(contains(error.what(), "host_function 'faulty': its callable threw"))
        << error.what();
    EXPECT_TRUE(contains(error.what(), "device_host_test.cc:")) << error.what();
    EXPECT_THROW(std::rethrow_exception(error.cause()), std::decay_t<decltype(thrown)>);
  };
  check(std::invalid_argument("bad radius"), ErrorCode::kInvalidArgument);
  check(std::out_of_range("o"), ErrorCode::kOutOfRange);
  check(std::bad_alloc(), ErrorCode::kResourceExhausted);
  check(std::runtime_error("r"), ErrorCode::kFailedPrecondition);
}

// spec: PY-06
TEST_P(DeviceHost, LoopedExecutionsHaveTheirOwnTapes) {
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
  EXPECT_EQ(loop(there(Tensor(2.0F))).item<float>(), 256);
  EXPECT_EQ(seen, (Floats{2, 4, 16}));
  const Tensor slope = gradient([&](const Tensor& x) { return loop(x); })(there(Tensor(2.0F)));
  EXPECT_EQ(slope.device(), device());
  EXPECT_EQ(slope.item<float>(), 1024);
}

// spec: PY-07
TEST_P(DeviceHost, GraphsOwnTheCallable) {
  const auto held = std::make_shared<int>(7);
  for (int i = 0; i < 1000; ++i) {
    const auto f =
        host_function([held](const Tensor& x) { return x * static_cast<float>(*held); }, kNumber);
    const auto staged = function([f](const Tensor& x) { return f(x) + 1.0F; });
    EXPECT_EQ(staged(there(Tensor(1.0F))).item<float>(), 8);
  }
  EXPECT_EQ(held.use_count(), 1);
}

// spec: PY-08
TEST_P(DeviceHost, ItRunsOnCopiesInTheScopeOfTheCaller) {
  std::vector<Device> inputs, places;
  const auto f = host_function(
      [&](const Tensor& x) {
        inputs.push_back(x.device());
        const Tensor y = x * 2.0F;
        places.push_back(y.device());
        return y;
      },
      kNumber);
  const auto staged = function([&](const Tensor& x) { return f(x * 1.0F) + x; });
  const Tensor x = there(Tensor(3.0F));
  EXPECT_EQ(staged(x).item<float>(), 9);
  EXPECT_EQ(inputs, std::vector<Device>{Device()});  // a copy that the host can read
  EXPECT_EQ(places, std::vector<Device>{Device()});
  inputs.clear();
  places.clear();
  const DeviceScope on(device(), {.copies = CopyPolicy::kForbid});
  const Tensor y = staged(x);
  EXPECT_EQ(y.device(), device());
  EXPECT_EQ(y.item<float>(), 9);
  EXPECT_EQ(places, std::vector<Device>{device()});  // calls of the callable run in the scope
  EXPECT_EQ(current_device(), device());
}

// spec: PY-08
TEST_P(DeviceHost, ConcurrentCallsMayCallStagedFunctions) {
  const auto inner = function([](const Tensor& x) { return x * x; });
  const auto f = host_function([&](const Tensor& x) { return inner(x) + inner(x); }, kNumber);
  const auto staged = function([&](const Tensor& x) { return f(x) + x; });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 1; t <= 8; ++t) {
    threads.emplace_back([&, t] {
      const auto at = static_cast<float>(t);
      std::optional<DeviceScope> on;
      if (t % 2 == 0) on.emplace(device());
      for (int i = 0; i < 20; ++i) {
        if (staged(there(Tensor(at))).item<float>() != 2 * at * at + at) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// spec: PY-09
TEST_P(DeviceHost, AGraphWithOneIsNotWritten) {
  const auto f = host_function([](const Tensor& x) { return x; }, kNumber, {.name = "mine"});
  const auto staged = function([&](const Tensor& x) { return f(x); });
  staged(there(Tensor(1.0F)));
  expect_error([&] { to_binary(staged.traces()[0].graph()); }, ErrorCode::kUnimplemented,
               {"host_function 'mine' made at", "neither be written to a file nor compiled ahead",
                "device_host_test.cc:"});
}

// spec: PY-10
TEST_P(DeviceHost, VariablesOfTheDevice) {
  const Variable w(there(Tensor(3.0F)), {.name = "w"});
  const auto listed = host_function([&](const Tensor& x) { return w * w * x; }, kNumber,
                                    {.name = "f", .variables = {w}});
  const auto staged = function([&](const Tensor& x) { return listed(x); });
  const Tensor two = there(Tensor(2.0F));
  for (const bool is_staged : {false, true}) {
    GradientTape tape;
    const Tensor y = is_staged ? staged(two) : listed(two);
    EXPECT_EQ(y.item<float>(), 18);
    const Tensor slope = tape.gradient(y, w);
    EXPECT_EQ(slope.device(), device());
    EXPECT_EQ(slope.item<float>(), 12);
  }
  const auto unlisted =
      host_function([&](const Tensor& x) { return w.read().to("cpu:0") * x.to("cpu:0"); }, kNumber);
  const auto staged_unlisted = function([&](const Tensor& x) { return unlisted(x); });
  EXPECT_EQ(staged_unlisted(two).item<float>(), 6);
  expect_error(
      [&] {
        GradientTape tape;
        staged_unlisted(two);
      },
      ErrorCode::kFailedPrecondition, {"reads Variable 'w'", ".variables = {v}"});
  const auto slope = [&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return staged(y); })(x);
  };
  expect_error([&] { gradient(slope)(two); }, ErrorCode::kUnimplemented,
               {"host_function 'f'", "second derivative"});
}

}  // namespace etude::device_host_test
