// SPDX-License-Identifier: Apache-2.0
// A GradientTape that watched none of the sources of a gradient warns, since the zeros of a struct
// are easily taken for a result.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/warnings.h"

namespace etude::unwatched_test {
namespace {

using tests::contains;
using tests::error_of;
using tests::warnings_of;

struct Line {
  Tensor w, b;
};
struct Deep {
  std::vector<Line> lines;
  Variable scale;
};

Tensor loss_of(const Line& line) { return sum(line.w * 2.0F + line.b); }

TEST(Unwatched, GradientsOfAStructAreZerosWithAWarning) {
  const Line line{ones({2, 3}), ones({3})};
  Line found;
  int at = 0;
  const auto step = [&] {
    GradientTape tape;
    const Tensor loss = loss_of(line);
    at = __LINE__ + 1;
    found = tape.gradient(loss, line);
  };
  const std::vector<std::string> told = warnings_of([&] {
    step();
    step();  // once per place
  });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(contains(told[0],
                       "gradient: the tape watched none of the sources (float32[2,3], "
                       "float32[3]), so that their gradients are absent or zeros. Call "
                       "tape.watch(x) before x is used"))
      << told[0];
  EXPECT_TRUE(contains(told[0], "unwatched_test.cc:" + std::to_string(at))) << told[0];
  EXPECT_EQ(sum(found.w).item<float>(), 0.0F);
}

TEST(Unwatched, NamesVariablesAndCountsTheOthers) {
  Deep deep{.lines = {}, .scale = Variable(1.0, {.name = "scale"})};
  for (int i = 0; i < 3; ++i) deep.lines.push_back({ones({2}), ones({2})});
  const std::vector<std::string> told = warnings_of([&] {
    GradientTape tape({.watch_variables = false});
    const Tensor loss = sum(deep.lines[0].w * deep.scale);
    static_cast<void>(tape.gradient(loss, deep));
  });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(
      contains(told[0], "(float32[2], float32[2], float32[2], float32[2] and 3 more), so that"))
      << told[0];
  const std::vector<std::string> named = warnings_of([&] {
    GradientTape tape;
    const Tensor loss = sum(deep.lines[0].w);
    EXPECT_FALSE(tape.gradient(loss, deep.scale).has_value());
  });
  ASSERT_EQ(named.size(), 1U);
  EXPECT_TRUE(contains(named[0], "none of the sources ('scale')")) << named[0];
  EXPECT_TRUE(contains(named[0], "a trainable Variable needs only to be read while the tape"));
}

TEST(Unwatched, IsSilentIfOneSourceIsWatchedOrNothingCanBe) {
  const Line line{ones({2, 3}), ones({3})};
  const std::vector<std::string> told = warnings_of([&] {
    GradientTape tape({.persistent = true});
    tape.watch(line.w);
    const Tensor loss = loss_of(line), middle = line.w * 2.0F;
    tape.stop();
    static_cast<void>(tape.gradient(loss, line));
    static_cast<void>(tape.gradient(loss, middle));  // unconnected, but recorded
    Variable v(1.0);
    GradientTape reads;
    const Tensor y = v * 2.0F;
    static_cast<void>(reads.gradient(y, v));
  });
  EXPECT_TRUE(told.empty()) << told[0];
}

TEST(Unwatched, HoldsForJacobians) {
  const Tensor x = ones({2, 2});
  for (const bool by_rows : {false, true}) {
    const std::vector<std::string> told = warnings_of([&] {
      GradientTape tape;
      const Tensor y = x * x;
      EXPECT_FALSE((by_rows ? tape.batch_jacobian(y, x) : tape.jacobian(y, x)).has_value());
    });
    ASSERT_EQ(told.size(), 1U);
    EXPECT_TRUE(contains(told[0], "jacobian: the tape watched none of the sources (float32[2,2])"))
        << told[0];
  }
}

TEST(Unwatched, IsAnErrorIfFindingsAreErrors) {
  const Line line{ones({2, 3}), ones({3})};
  set_diagnostics({.independent_result = Severity::kError});
  const std::string text = error_of(ErrorCode::kInvalidArgument, [&] {
    GradientTape tape;
    const Tensor loss = loss_of(line);
    static_cast<void>(tape.gradient(loss, line));
  });
  set_diagnostics({.independent_result = Severity::kIgnore});
  const std::vector<std::string> told = warnings_of([&] {
    GradientTape tape;
    static_cast<void>(tape.gradient(loss_of(line), line));
  });
  set_diagnostics({});
  EXPECT_TRUE(contains(text, "gradient: the tape watched none of the sources (float32[2,3], "));
  EXPECT_TRUE(contains(text, "\n  at ") && contains(text, "unwatched_test.cc:")) << text;
  EXPECT_TRUE(told.empty());
}

TEST(Unwatched, AUsedUpTapeIsAnErrorOfItsOwn) {
  const Line line{ones({2, 3}), ones({3})};
  const std::vector<std::string> told = warnings_of([&] {
    GradientTape tape;
    tape.watch(line);
    const Tensor loss = loss_of(line);
    static_cast<void>(tape.gradient(loss, line));
    const std::string text =
        error_of(ErrorCode::kFailedPrecondition, [&] { tape.gradient(loss, line); });
    EXPECT_TRUE(contains(text, "persistent")) << text;
  });
  EXPECT_TRUE(told.empty()) << told[0];
}

}  // namespace
}  // namespace etude::unwatched_test
