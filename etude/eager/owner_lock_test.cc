// SPDX-License-Identifier: Apache-2.0
#include "etude/eager/owner_lock.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

TEST(OwnerLock, OwnerAndGuestsAreNeverInsideTogether) {
  OwnerLock lock;
  int64_t sum = 0;  // not atomic, so that lost updates show
  int inside = 0;
  const auto enter = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const std::unique_lock<OwnerLock> held(lock);
      EXPECT_EQ(inside, 0);
      inside = 1;
      ++sum;
      inside = 0;
    }
  };
  std::vector<std::thread> guests;
  for (int t = 0; t < 3; ++t) guests.emplace_back(enter, 2000);
  enter(200000);
  for (std::thread& t : guests) t.join();
  EXPECT_EQ(sum, 200000 + 3 * 2000);
}

TEST(OwnerLock, OwnerWaitsForAGuest) {
  OwnerLock lock;
  std::condition_variable_any changed;
  int turn = 0;
  std::thread guest([&] {
    for (int i = 0; i < 500; ++i) {
      std::unique_lock<OwnerLock> held(lock);
      changed.wait(held, [&] { return turn == 2 * i + 1; });
      ++turn;
      changed.notify_all();
    }
  });
  for (int i = 0; i < 500; ++i) {
    std::unique_lock<OwnerLock> held(lock);
    changed.wait(held, [&] { return turn == 2 * i; });
    ++turn;
    changed.notify_all();
  }
  guest.join();
  EXPECT_EQ(turn, 1000);
}

TEST(OwnerLock, OutlivesItsOwner) {
  OwnerLock* lock = nullptr;
  std::thread([&] {
    lock = new OwnerLock;
    const std::unique_lock<OwnerLock> held(*lock);
    EXPECT_TRUE(lock->is_owner());
  }).join();
  { const std::unique_lock<OwnerLock> held(*lock); }
  delete lock;
}

}  // namespace
}  // namespace etude::internal
