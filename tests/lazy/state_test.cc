// SPDX-License-Identifier: Apache-2.0
// Random numbers, Variables, staged functions, prints and files in lazy programs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/functions/printing.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

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
