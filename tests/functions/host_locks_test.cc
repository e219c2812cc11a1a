// SPDX-License-Identifier: Apache-2.0
// Host code that the library runs may call back into everything, on its thread and on threads that
// it waits for: no lock of the library is held meanwhile. A watchdog ends a test that does not end.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/warning.h"
#include "etude/data/dataset.h"
#include "etude/etude.h"

namespace etude::host_locks_test {

// Ends the program if the scope lasts too long, with its name.
class Watchdog {
 public:
  explicit Watchdog(const char* what) : what_(what), thread_([this] { watch(); }) {}
  Watchdog(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      is_done_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    if (done_.wait_for(lock, std::chrono::seconds(60), [this] { return is_done_; })) return;
    std::fprintf(stderr, "%s hangs: host code waits for a thread that waits for a lock\n", what_);
    std::abort();
  }

  const char* what_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::thread thread_;
};

const TensorSpec kNumber{{}, kFloat32};

// The calls that host code makes. `number` makes the arguments of each function new, so that they
// are traced there.
class Everything {
 public:
  // On this thread, and on another that this one waits for. Does nothing while it runs already.
  void call() {
    if (is_running_.exchange(true)) return;
    call_here();
    std::thread other([this] { call_here(); });
    other.join();
    ++calls_;
    is_running_ = false;
  }
  int calls() const { return calls_; }

  Variable shared{Tensor(1.0F), {.name = "shared", .trainable = false}};
  std::function<void()> same_function;  // the call that the host code belongs to

 private:
  // Outside of the traces of this thread, whose values have no elements.
  void call_here() {
    init_scope([this] { call_all(); });
  }
  void call_all() {
    const auto fresh = function([this](const Tensor& x) {
      shared.assign(shared + 0.0F);
      return sum(x * x);
    });
    EXPECT_EQ(fresh(ones({3})).item<float>(), 3);
    EXPECT_EQ(known_(full(Shape{static_cast<int64_t>(2 + number_++ % 7)}, 1.0F)).size(), 1);
    shared.read();
    shared.assign_add(0.0F);
    EXPECT_EQ(gradient([](const Tensor& x) { return x * x; })(Tensor(2.0F)).item<float>(), 4);
    {
      const LazyScope lazy;
      const Tensor y = Tensor(2.0F) * 3.0F + 1.0F;
      EXPECT_EQ(y.item<float>(), 7);
    }
    print("from host code");
    if (same_function) same_function();
  }

  Function<Tensor(const Tensor&)> known_ = function([](const Tensor& x) { return sum(x); });
  std::atomic<int> number_ = 0;
  std::atomic<int> calls_ = 0;
  std::atomic<bool> is_running_ = false;
};

struct QuietPrints {
  PrintSink before = set_print_sink([](std::string_view) {});
  ~QuietPrints() { set_print_sink(std::move(before)); }
};

TEST(HostLocks, AHostFunctionInAStagedCallThatAssigns) {
  const Watchdog watchdog("a host function");
  const QuietPrints quiet;
  Everything all;
  const auto host = host_function(
      [&](const Tensor& x) {
        all.call();
        return x + 1.0F;
      },
      kNumber);
  const auto step = function([&](const Tensor& x) {
    const Tensor y = host(x);
    all.shared.assign(all.shared + y);
    return y;
  });
  all.same_function = [&] { step(Tensor(1.0F)); };
  EXPECT_EQ(step(Tensor(1.0F)).item<float>(), 2);
  EXPECT_EQ(step(Tensor(2.0F)).item<float>(), 3);
  // In its derivative, and in a plain call.
  EXPECT_EQ(gradient([&](const Tensor& x) { return step(x); })(Tensor(1.0F)).item<float>(), 1);
  EXPECT_EQ(host(Tensor(1.0F)).item<float>(), 2);
  EXPECT_GE(all.calls(), 4);
}

TEST(HostLocks, AHandlerOfWarnings) {
  const Watchdog watchdog("a handler of warnings");
  const QuietPrints quiet;
  Everything all;
  WarningHandler before = set_warning_handler([&](std::string_view) { all.call(); });
  internal::forget_warnings();
  // Warned while it is traced: an integer has no gradient.
  const auto f = function([](const Tensor& x) {
    GradientTape tape;
    const Tensor n(3);
    tape.watch(x);
    return std::get<0>(tape.gradient(sum(x * x), std::tuple(x, n)));
  });
  EXPECT_TRUE(same_value(f(ones({2})), full(Shape{2}, 2.0F)));
  set_warning_handler(std::move(before));
  EXPECT_GE(all.calls(), 1);
}

TEST(HostLocks, ARuleOfAProgramInATrace) {
  const Watchdog watchdog("a rule");
  const QuietPrints quiet;
  Everything all;
  const auto rule = custom_gradient([&](const Tensor& x) {
    all.call();
    return std::pair{x * x, [&all, x](const Tensor& dy) {
                       all.call();
                       return 2.0F * x * dy;
                     }};
  });
  const auto staged = function([&](const Tensor& x) { return rule(x); });
  const auto slope = [&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return staged(y); })(x);
  };
  EXPECT_EQ(slope(Tensor(3.0F)).item<float>(), 6);
  EXPECT_EQ(gradient([&](const Tensor& y) { return rule(y); })(Tensor(3.0F)).item<float>(), 6);
  EXPECT_GE(all.calls(), 2);
}

TEST(HostLocks, AMapOfADataset) {
  const Watchdog watchdog("a map of a dataset");
  const QuietPrints quiet;
  Everything all;
  auto numbers = data::from_list(std::vector<int>{1, 2, 3, 4})
                     .map(
                         [&](int x) {
                           all.call();
                           return x * 2;
                         },
                         {.parallel = 2});
  int total = 0;
  for (const int x : numbers.prefetch(2)) total += x;
  EXPECT_EQ(total, 20);
  EXPECT_GE(all.calls(), 1);
}

// An initialiser runs at the first read: of the Variable itself, and in a staged call that assigns
// another one.
TEST(HostLocks, AnInitialiserOfAVariable) {
  const Watchdog watchdog("an initialiser");
  const QuietPrints quiet;
  Everything all;
  std::optional<Variable> late;
  const auto make_late = [&] {
    std::thread([&] {  // looks at the Variable whose value is computed
      EXPECT_TRUE(late->initialized());
      EXPECT_EQ(late->name(), "late");
      EXPECT_NE(late->to_string().find("not initialised"), std::string::npos);
    })
        .join();
    all.call();
    return ones({2});
  };
  late.emplace(make_late, VariableOptions{.name = "late"});
  EXPECT_EQ(late->dtype(), kFloat32);
  EXPECT_EQ(all.calls(), 1);
  Variable next([&] {
    all.call();
    return ones({2});
  });
  const auto step = function([&](const Tensor& x) {
    all.shared.assign(all.shared + 1.0F);
    return sum(next.read() * x);
  });
  EXPECT_EQ(step(Tensor(3.0F)).item<float>(), 6);
  EXPECT_EQ(all.calls(), 2);
  // An assignment while the initialiser runs is faster: its value stays.
  std::optional<Variable> assigned;
  assigned.emplace([&] {
    std::thread([&] { assigned->assign(Tensor(7.0F)); }).join();
    return Tensor(1.0F);
  });
  EXPECT_EQ(assigned->read().item<float>(), 7);
}

// Threads that read at the same time wait for one run; a run that fails is repeated by the next.
TEST(HostLocks, AnInitialiserRunsOnce) {
  const Watchdog watchdog("an initialiser of several threads");
  std::atomic<int> runs = 0;
  Variable shared([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (runs++ == 0) throw Error(ErrorCode::kUnavailable, "not yet");
    return Tensor(5.0F);
  });
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      try {
        EXPECT_EQ(shared.read().item<float>(), 5);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
        ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(runs, 2);
}

TEST(HostLocks, InitialisersThatWaitForEachOtherAreAnError) {
  const Watchdog watchdog("two initialisers");
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  const auto meet = [&] {  // both run before one reads the other
    std::unique_lock lock(mutex);
    ++running;
    changed.notify_all();
    changed.wait(lock, [&] { return running >= 2; });
  };
  std::optional<Variable> a, b;
  a.emplace([&] { return meet(), b->read() + 1.0F; }, VariableOptions{.name = "a"});
  b.emplace([&] { return meet(), a->read() + 1.0F; }, VariableOptions{.name = "b"});
  // The second one to wait is refused. Then the first runs both, and finds the circle as well.
  std::atomic<int> circles = 0, own = 0;
  const auto read = [&](const Variable& v) {
    try {
      v.read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
      const std::string text = error.what();
      circles += text.find("waits for an initialiser of this thread") != std::string::npos ? 1 : 0;
      own += text.find("reads the Variable itself") != std::string::npos ? 1 : 0;
    }
  };
  std::thread other([&] { read(*b); });
  read(*a);
  other.join();
  EXPECT_EQ(circles, 1);
  EXPECT_EQ(own, 1);
}

TEST(HostLocks, APrintSink) {
  const Watchdog watchdog("a print sink");
  std::atomic<int> lines = 0;
  const auto f = function([](const Tensor& x) {
    print("x", x);
    return x + 1.0F;
  });
  PrintSink before = set_print_sink([&](std::string_view) {
    if (lines++ > 0) return;
    std::thread([&] { f(Tensor(2.0F)); }).join();  // its line waits for this one
  });
  f(Tensor(1.0F));
  set_print_sink(std::move(before));
  EXPECT_EQ(lines, 2);
}

// spec: TC-18.a
TEST(HostLocks, ThreadsThatTraceAtTheSameTimeMakeOneGraphForEachKey) {
  const Watchdog watchdog("tracing");
  std::atomic<int> runs = 0;
  const auto f = function([&](const Tensor& x, int n) {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return x * static_cast<float>(n);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] { EXPECT_EQ(f(Tensor(2.0F), t % 4).item<float>(), 2 * (t % 4)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(f.trace_count(), 4U);
  EXPECT_EQ(runs, 4);
}

}  // namespace etude::host_locks_test
