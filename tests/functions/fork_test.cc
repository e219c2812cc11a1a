// SPDX-License-Identifier: Apache-2.0
// fork() while other threads trace, or run calls: each child goes on, and traces the same
// functions.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/etude.h"

namespace etude {
namespace {

// Threads that trace all the time: new functions, and a shared function.
class Tracers {
 public:
  template <class F>
  explicit Tracers(F& shared) {
    for (int t = 0; t < 3; ++t) {
      threads_.emplace_back([this, t, &shared] {
        for (int i = 0; !is_over_.load(); ++i) {
          const auto own = function([i](const Tensor& x) { return tanh(x * float(i)) + sum(x); });
          own(ones({2 + i % 7}));
          shared(1000 * (t + 1) + i, ones({3}));
        }
      });
    }
  }
  ~Tracers() { is_over_ = true; }

 private:
  std::atomic<bool> is_over_{false};
  std::vector<std::jthread> threads_;
};

TEST(Fork, AChildTracesWhateverOtherThreadsTraced) {
  const auto shared = function([](int k, const Tensor& x) { return x * float(k) + 1.0F; });
  // The very first call of the library makes static objects, and fork() cannot wait for the guards
  // that the C++ runtime holds meanwhile (docs/environment.md).
  ones({3});
  int ended = 0;
  constexpr int kForks = 40;
  {
    const Tracers tracers(shared);
    for (int n = 0; n < kForks; ++n) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);  // ends a child that does not go on
        const Tensor y = shared(n, ones({3}));
        const auto own = function([n](const Tensor& x) { return x - float(n); });
        const bool is_right = y.to_vector<float>()[0] == float(n) + 1.0F &&
                              own(ones({2})).to_vector<float>()[1] == 1.0F - float(n);
        _exit(is_right ? 0 : 1);
      }
      int status = 0;
      waitpid(child, &status, 0);
      ended += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(ended, kForks);
}

// Threads that run calls of all kinds all the time: small and large results, types of many sizes,
// attributes, loops on several threads, gradients.
class Callers {
 public:
  Callers() {
    for (int t = 0; t < 4; ++t) {
      threads_.emplace_back([this, t] {
        for (int64_t i = 1; !is_over_.load(); ++i) {
          const Tensor x = ones({i % 5000 + 1, t + 1}) * 2.0F;
          static_cast<void>(sum(x, {.axis = {0}}));
          static_cast<void>(full({100000 + i % 64}, 0.5F) + 1.0F);
          static_cast<void>(permute_dims(x, {1, 0}));
          if (i % 8 == t) static_cast<void>(sum(tanh(ones({300000}))));
          static_cast<void>(
              gradient([](const Tensor& y) { return sum(y * y); }, ones({i % 9 + 1})));
        }
      });
    }
  }
  ~Callers() { is_over_ = true; }

 private:
  std::atomic<bool> is_over_{false};
  std::vector<std::jthread> threads_;
};

TEST(Fork, AChildRunsCallsWhateverOtherThreadsRan) {
  ones({3});  // as above
  int ended = 0;
  constexpr int kForks = 150;
  {
    const Callers callers;
    for (int n = 0; n < kForks; ++n) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);  // ends a child that does not go on
        bool is_right = true;
        for (int64_t i = 1; i < 40; ++i) {
          const Tensor x = ones({i * 97, 3}) * 2.0F;  // types that the parent may just make
          is_right = is_right && sum(x).item<float>() == static_cast<float>(i * 97 * 6);
        }
        is_right = is_right && sum(ones({300000})).item<float>() == 300000.0F;
        is_right =
            is_right &&
            gradient([](const Tensor& y) { return sum(y * y); }, ones({2})).to_vector<float>()[1] ==
                2.0F;
        _exit(is_right ? 0 : 1);
      }
      int status = 0;
      waitpid(child, &status, 0);
      ended += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(ended, kForks);
}

// The host code of a trace may wait for the thread that forks.
TEST(Fork, DoesNotWaitForEverForATrace) {
  std::atomic<bool> is_inside{false}, goes_on{false};
  const auto waits = function([&](const Tensor& x) {
    is_inside = true;
    while (!goes_on) std::this_thread::yield();
    return x + 1.0F;
  });
  std::jthread tracer([&] { waits(ones({2})); });
  while (!is_inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const auto own = function([](const Tensor& x) { return x * 2.0F; });
    _exit(own(ones({2})).to_vector<float>()[0] == 2.0F ? 0 : 1);
  }
  goes_on = true;
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A function that forks while it is traced: parent and child both complete the trace.
TEST(Fork, InsideATrace) {
  pid_t child = -1;
  const auto forks = function([&](const Tensor& x) {
    child = fork();
    return x + 1.0F;
  });
  const bool is_right = forks(ones({2})).to_vector<float>()[0] == 2.0F;
  if (child == 0) _exit(is_right ? 0 : 1);
  EXPECT_TRUE(is_right);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace etude
