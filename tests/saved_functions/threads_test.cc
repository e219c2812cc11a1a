// SPDX-License-Identifier: Apache-2.0
// Loaded functions on several threads: no update is lost, and graphs of new sizes are made once.
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/saved_functions/saved_folder.h"

namespace etude::saved_functions_test {
namespace {

class SavedThreads : public SavedFolder {};

TEST_F(SavedThreads, NoUpdateIsLost) {
  const Variable calls(0.0, {.name = "calls"});
  struct Total {
    Tensor value = Tensor(0.0);
  } total;
  const auto add = function(
      [&](Total& t, const Tensor& x) {
        calls.assign_add(1.0);
        t.value = t.value + sum(x);
        return t.value;
      },
      {.name = "add", .arg_names = {"total", "x"}});
  add(total, ones({2}));
  add(total, ones({3}));
  saved::save(path("f"), {{"add", saved::bind(add, total)}, {"calls", calls}});
  const saved::Program program = saved::load(path("f"));
  const auto loaded = program.function("add").as<OfOne>();
  constexpr int kThreads = 4, kCalls = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) loaded(ones({i % 7 + 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  float want = 5;
  for (int i = 0; i < kCalls; ++i) want += static_cast<float>(kThreads * (i % 7 + 1));
  EXPECT_EQ(program.variable("total/value").read().item<float>(), want);
  EXPECT_EQ(program.variable("calls").read().item<float>(), 2.0F + kThreads * kCalls);
}

TEST_F(SavedThreads, SaversTakeTurns) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const Variable mine(static_cast<double>(t));
        saved::save(path("f"), {{"v", mine}});
        const float found = saved::load(path("f")).variable("v").read().item<float>();
        EXPECT_TRUE(found >= 0 && found < 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A file that is replaced between the search for its path and the look at it has no name then.
TEST_F(SavedThreads, AReaderBesideASaver) {
  const Variable mine(1.0);
  saved::save(path("f"), {{"v", mine}});
  const std::filesystem::path folder = path("f"), next = folder / "next";
  const std::filesystem::path manifest = folder / "saved.json";
  std::atomic<bool> is_over = false;
  std::thread saver([&] {
    while (!is_over) {
      std::filesystem::copy_file(manifest, next);
      std::filesystem::rename(next, manifest);
    }
  });
  try {
    for (int i = 0; i < 2000; ++i) static_cast<void>(saved::load(path("f")));
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  is_over = true;
  saver.join();
}

}  // namespace
}  // namespace etude::saved_functions_test
