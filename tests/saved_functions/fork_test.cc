// SPDX-License-Identifier: Apache-2.0
// fork() while another thread calls a loaded function.
#include <atomic>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/saved_functions/saved_folder.h"

namespace etude::saved_functions_test {
namespace {

class SavedForks : public SavedFolder {};

// The children of fork() find no lock closed that a thread of the parent held.
TEST_F(SavedForks, AChildOfForkCallsWhatOtherThreadsCall) {
  const auto twice = function([](const Tensor& x) { return x * 2.0F; },
                              {.name = "twice", .signature = Signature{{"x", TensorSpec{{kAny}}}}});
  saved::save(path("f"), {{"twice", twice}});
  constexpr int kForks = 40;
  int ended = 0;
  for (int n = 0; n < kForks; ++n) {
    const auto loaded = saved::load(path("f")).function("twice").as<OfOne>();
    std::atomic<bool> is_over{false};
    std::jthread caller([&] {
      for (int i = 0; !is_over; ++i) loaded(ones({i % 97}));
    });
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends a child that does not go on
      bool is_right = true;
      for (int i = 0; i < 20; ++i) {
        is_right = is_right && sum(loaded(ones({i}))).item<float>() == 2.0F * float(i);
      }
      _exit(is_right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    is_over = true;
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  EXPECT_EQ(ended, kForks);
}

}  // namespace
}  // namespace etude::saved_functions_test
