// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/float_mode.h"

#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "etude/device/cpu/parallel.h"

namespace etude {
namespace {

// Half the smallest normal number: zero where results are flushed.
float half_of_smallest() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = smallest * 0.5F;
  return half;
}

// Zero where operands are flushed.
float scaled_denormal() {
  volatile float tiny = std::numeric_limits<float>::denorm_min();
  volatile float scaled = tiny * 1e30F;
  return scaled;
}

TEST(FloatMode, FlushesInsideAndIsRestored) {
  EXPECT_NE(half_of_smallest(), 0.0F);
  {
    const FloatModeScope outer;
    EXPECT_EQ(half_of_smallest(), 0.0F);
    EXPECT_EQ(scaled_denormal(), 0.0F);
    {
      const FloatModeScope inner;
      EXPECT_EQ(half_of_smallest(), 0.0F);
    }
    EXPECT_EQ(half_of_smallest(), 0.0F);
  }
  EXPECT_NE(half_of_smallest(), 0.0F);
  EXPECT_NE(scaled_denormal(), 0.0F);
}

TEST(FloatMode, IsRestoredAfterAnException) {
  try {
    const FloatModeScope scope;
    throw 1;
  } catch (int) {
  }
  EXPECT_NE(half_of_smallest(), 0.0F);
}

TEST(FloatMode, KeepIsStrict) {
  set_denormals(Denormals::kKeep);
  EXPECT_EQ(denormals(), Denormals::kKeep);
  {
    const FloatModeScope scope;
    EXPECT_NE(half_of_smallest(), 0.0F);
  }
  set_denormals(Denormals::kFlush);
  EXPECT_EQ(denormals(), Denormals::kFlush);
}

TEST(ThreadsFloatMode, WorkersHaveTheModeOfTheCaller) {
  set_thread_count(4);
  for (const bool flush : {true, false, true}) {
    set_denormals(flush ? Denormals::kFlush : Denormals::kKeep);
    const FloatModeScope scope;
    std::atomic<int> wrong{0};
    parallel_for(200, 1000, [&](int64_t) {
      if ((half_of_smallest() == 0.0F) != flush) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
  }
  set_thread_count(0);
  set_denormals(Denormals::kFlush);
}

}  // namespace
}  // namespace etude
