// SPDX-License-Identifier: Apache-2.0
// Random numbers, Variables, staged functions, prints and files in lazy programs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/functions/printing.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

using tests::expect_error;

// spec: Z32, IM-11.e
TEST(LazyState, DrawsAreThoseOfEagerCalls) {
  const auto draw = [] {
    const SeedScope seed(3);
    std::vector<Tensor> out;
    for (int i = 0; i < 5; ++i) out.push_back(random::normal({6}) * random::uniform({6}));
    return out;
  };
  const std::vector<Tensor> eager = draw();
  const LazyScope lazy;
  const std::vector<Tensor> found = draw();
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_value(found[i], eager[i]));
  const LazyMetrics metrics;
  const SeedScope seed(5);
  std::vector<float> seen;
  for (int i = 0; i < 20; ++i) seen.push_back(sum(random::normal({6})).item<float>());
  EXPECT_LE(metrics.counts().compiles, 1);
  EXPECT_NE(seen[0], seen[1]);
}

// spec: Z33.a
TEST(LazyState, VariablesHoldPendingValues) {
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Variable v(zeros({4}));
  for (int i = 0; i < 3; ++i) v.assign_add(ones({4}) * 2.0F);
  const Tensor read = v * 10.0F;
  v.assign(v + 1.0F);
  v.at(1) = 5.0F;
  EXPECT_EQ(metrics.counts().executes, 0);
  EXPECT_EQ(read.to_vector<float>()[0], 60.0F);
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{7, 5, 7, 7}));
}

// spec: Z33.b, Z17
TEST(LazyState, AVariableIsUpdatedInPlace) {
  const LazyScope lazy;
  const Variable v(zeros({64, 64}));
  lazy_barrier();
  const LazyMetrics metrics;
  for (int i = 0; i < 4; ++i) {
    v.assign_add(1.0F);
    lazy_barrier();
  }
  EXPECT_EQ(metrics.counts().donations, 4);
  EXPECT_EQ(v.read().to_vector<float>()[0], 4.0F);
}

// spec: Z34.a, Z34.b
TEST(LazyState, AStagedCallIsOneNode) {
  const auto f =
      function([](const Tensor& x, const Tensor& y) { return tanh(x * y) + exp(x) - y; });
  const Tensor x = Tensor({0.5, 1.0}), y = Tensor({2.0, 3.0});
  const Tensor want = f(x, y);
  const LazyScope lazy;
  const Tensor a = x * 1.5F / 1.5F;
  const int64_t before = pending_nodes();
  const Tensor found = f(a, y);
  EXPECT_EQ(pending_nodes(), before + 1);
  EXPECT_TRUE(is_pending(found));
  EXPECT_TRUE(same_value(found, want));
  const auto inside = function([](const Tensor& z) {
    const LazyScope ignored;
    EXPECT_FALSE(is_lazy());
    return z + 1.0F;
  });
  EXPECT_EQ(inside(x).to_vector<float>()[1], 2.0F);
}

TEST(LazyState, AFunctionCapturesAPendingValue) {
  const LazyScope lazy;
  const Tensor scale = ones({2}) * 3.0F;
  const auto f = function([&](const Tensor& x) { return x * scale; });
  EXPECT_EQ(f(Tensor({1.0, 2.0})).to_vector<float>()[1], 6.0F);
  const Tensor chosen = cond(
      sum(scale) > 1.0F, [&] { return scale * 2.0F; }, [&] { return scale; });
  EXPECT_EQ(chosen.to_vector<float>()[0], 6.0F);
}

// Variable and argument of a staged call in which `take` fails, and then of a call that succeeds.
void expect_as_before_a_failure(const char* mode, bool is_pending_before) {
  SCOPED_TRACE(mode);
  const Variable v(Tensor(1.0));
  const auto f = function([&](Tensor& x, const Tensor& i, const Tensor& scale) {
    const Tensor r = take(x, i) * scale;
    v.assign(v + sum(r));
    x += 1.0;
    return sum(r);
  });
  Tensor x({1.0, 2.0, 3.0});
  if (is_pending_before) {
    x = x * 2.0 / 2.0;
    v.assign(v * 3.0 / 3.0);
  }
  const Tensor one(1.0);
  const auto expect_first = [&] {
    EXPECT_EQ(v.read().item<float>(), 1.0F);
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  };
  expect_error([&] { f(x, Tensor({7}), one); }, ErrorCode::kOutOfRange, {"take: ", "7"});
  expect_first();
  expect_error([&] { gradient([&](const Tensor& s) { return f(x, Tensor({7}), s); }, one); },
               ErrorCode::kOutOfRange, {"take: ", "7"});
  expect_first();
  const Tensor slope = gradient([&](const Tensor& s) { return f(x, Tensor({2}), s); }, Tensor(2.0));
  EXPECT_EQ(slope.item<float>(), 3.0F);
  EXPECT_EQ(v.read().item<float>(), 7.0F);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(f(x, Tensor({0, 1}), one).item<float>(), 5.0F);
  EXPECT_EQ(v.read().item<float>(), 12.0F);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{3, 4, 5}));
}

TEST(LazyState, AStagedCallThatFailsChangesNothing) {
  run_functions_eagerly(true);
  expect_as_before_a_failure("eager", false);
  run_functions_eagerly(false);
  expect_as_before_a_failure("staged", false);
  const LazyScope lazy;
  expect_as_before_a_failure("staged, lazily", false);
  expect_as_before_a_failure("staged, lazily, of what is pending", true);
}

enum class End { kBarrier, kLook, kLookAtOther, kScope };

// Variables of plain calls, some of which fail, and the errors.
void expect_before_a_failed_run(End end) {
  SCOPED_TRACE(static_cast<int>(end));
  const Variable v(Tensor({1.0, 2.0})), w(Tensor(1.0));
  const auto fails = [](const auto& f) {
    expect_error(f, ErrorCode::kOutOfRange, {"take: ", "7"});
  };
  Tensor seen;
  {
    const LazyScope lazy;
    v.assign_add(1.0);
    w.assign(w + 4.0);
    const Tensor bad = take(v.read(), Tensor({7}));
    v.assign(v + bad);
    v.assign_sub(3.0);
    seen = v.read();
    if (end == End::kBarrier) fails([] { lazy_barrier(); });
    if (end == End::kLook) fails([&] { seen.to_vector<float>(); });
    if (end == End::kLookAtOther) fails([&] { (bad * v).to_vector<float>(); });
  }
  if (end == End::kScope) fails([&] { v.read().to_vector<float>(); });
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(w.read().item<float>(), 5);  // does not depend on the failure
  fails([&] { seen.to_vector<float>(); });
  v.assign_add(1.0);
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{2, 3}));
  const LazyScope lazy;
  v.assign_add(1.0);
  lazy_barrier();
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{3, 4}));
}

TEST(LazyState, AVariableHoldsAfterAFailedRunWhatItHeldBefore) {
  for (int times = 0; times < 2; ++times) {  // call by call, and by a program
    for (const End end : {End::kBarrier, End::kLook, End::kLookAtOther, End::kScope}) {
      expect_before_a_failed_run(end);
    }
    wait_for_compile();
  }
}

TEST(LazyState, AVariableMadeInAFailedRunHoldsItsFirstValue) {
  const LazyScope lazy;
  const Variable v(zeros({2}) + 1.0F);
  v.assign(v + take(v.read(), Tensor({7})));
  expect_error([] { lazy_barrier(); }, ErrorCode::kOutOfRange, {"take: "});
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{1, 1}));
  v.assign_add(v * 2.0F);
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{3, 3}));
  v.assign(v + take(v.read(), Tensor({7})));
  v.assign(ones({2}));  // depends on no failed call
  lazy_barrier();
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(LazyState, AFailureBeforeAStagedCallIsThrownByTheCall) {
  const Variable v(Tensor(1.0));
  const auto f = function([&](Tensor& x, const Tensor& y) {
    v.assign(v + sum(y));
    x += y;
  });
  Tensor x({1.0, 2.0});
  const LazyScope lazy;
  const Tensor bad = take(ones({2}), Tensor({7}) + 0);
  expect_error([&] { f(x, bad); }, ErrorCode::kOutOfRange, {"take: ", "7"});
  EXPECT_EQ(v.read().item<float>(), 1.0F);
  EXPECT_EQ(x.to_vector<float>()[1], 2.0F);
}

// A staged training step counts as no observation at a user's line, and calls after it are lazy.
TEST(LazyState, AStagedCallThatChangesSomethingRunsAtOnce) {
  const Variable steps(Tensor(0.0));
  const auto step = function([&](Tensor& w, const Tensor& x) {
    steps.assign_add(1.0);
    w += x;
    return sum(w);
  });
  const LazyScope lazy;
  const LazyMetrics metrics;
  Tensor w = zeros({3});
  for (int i = 0; i < 4; ++i) {
    const Tensor loss = step(w, ones({3}) * 2.0F);
    EXPECT_FALSE(is_pending(w) || is_pending(loss) || is_pending(steps.read()));
    EXPECT_TRUE(is_lazy());
    EXPECT_TRUE(is_pending(loss + 1.0F));
  }
  wait_for_compile();
  EXPECT_EQ(metrics.counts().observations, 0);
  EXPECT_LE(metrics.counts().compiles, 2);
  EXPECT_EQ(steps.read().item<float>(), 4.0F);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{8, 8, 8}));
}

// spec: Z35.a
TEST(LazyState, PrintsComeInTheOrderOfTheProgram) {
  tests::Printing printing;
  const auto program = [] {
    Tensor x = ones({2}) * 2.0F;
    print("first", x);
    x += 1.0F;
    print("second", x);
    return x;
  };
  program();
  const std::vector<std::string> eager = printing.take();
  const LazyMetrics metrics;
  const LazyScope lazy;
  program();
  EXPECT_EQ(printing.take(), eager);
  EXPECT_EQ(metrics.eager_ops().at("print"), 2);
}

// spec: Z35.b
TEST(LazyState, FilesHoldElements) {
  const internal::TempFolder folder;
  const auto path = folder.path() / "x.safetensors";
  {
    const LazyScope lazy;
    io::save_safetensors(path.string(), io::NamedTensors{{"x", ones({3}) * 4.0F}});
  }
  EXPECT_EQ(io::load_safetensors(path.string()).tensors.at("x").to_vector<float>()[2], 4.0F);
}

}  // namespace
}  // namespace etude
