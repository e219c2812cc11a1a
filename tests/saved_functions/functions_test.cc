// SPDX-License-Identifier: Apache-2.0
// Saved functions: arguments, results, state, gradients and contexts of loaded functions.
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/saved/saved.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

namespace etude::saved_functions_test {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using tests::expect_error;

class SavedFunctions : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  const TempFolder folder_;
};

using Files = std::map<std::string, std::string>;
Files files_of(const std::string& folder) {
  Files out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    out[fs::relative(entry.path(), folder).string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && array_equal(a, b).item<bool>();
}

TEST_F(SavedFunctions, APlainFunctionOfTensors) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return x * y + 1; },
                          {.name = "f", .arg_names = {"x", "y"}});
  const Tensor a({1.0, 2.0}), b({3.0, 5.0});
  const Tensor want = f(a, b);
  saved::save(path("f"), {{"f", f}});
  const saved::Program program = saved::load(path("f"));
  const auto loaded = program.function("f").as<Tensor(const Tensor&, const Tensor&)>();
  EXPECT_TRUE(same(loaded(a, b), want));
  const Parts result = program.function("f")(Parts::fields({{"y", b}, {"x", a}}));
  EXPECT_TRUE(same(result.tensor(""), want));
  saved::save(path("again"), program);
  EXPECT_EQ(files_of(path("again")), files_of(path("f")));
  std::puts(program.to_string().c_str());
  std::puts(program.function("f").explain().c_str());
  std::puts(files_of(path("f"))["saved.json"].c_str());
}

struct Line {
  Tensor w = Tensor({1.0, 2.0});
  Tensor b = Tensor(0.5);
};

TEST_F(SavedFunctions, BoundStateAndTraining) {
  Line line;
  const auto predict =
      function([](const Line& l, const Tensor& x) { return matmul(x, l.w) + l.b; },
               {.name = "predict", .arg_names = {"line", "x"}});
  const auto step = function(
      [](Line& l, const Tensor& x, const Tensor& y) {
        const auto [loss, slope] = value_with_gradient(
            [&](const Line& m) { return mean(square(matmul(x, m.w) + m.b - y)); }, l);
        move(l, -0.1F * slope);
        return loss;
      },
      {.name = "step", .arg_names = {"line", "x", "y"}});
  const Tensor x({{1.0, 2.0}, {3.0, 4.0}}), y({1.0, 2.0});
  predict(line, x);
  predict(line, ones({5, 2}));
  step(line, x, y);
  saved::save(path("m"), {{"predict", saved::bind(predict, line)}, {"train", saved::bind(step, line)}});
  const saved::Program program = saved::load(path("m"));
  std::puts(program.to_string().c_str());
  const auto p = program.function("predict").as<Tensor(const Tensor&)>();
  const auto t = program.function("train").as<Tensor(const Tensor&, const Tensor&)>();
  EXPECT_TRUE(same(p(x), predict(line, x)));
  for (const int n : {1, 2, 3, 7}) {
    EXPECT_TRUE(same(p(ones({n, 2})), predict(line, ones({n, 2})))) << n;
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(t(x, y), step(line, x, y)));
  EXPECT_TRUE(same(p(x), predict(line, x)));
  EXPECT_TRUE(same(program.variable("line/w").read(), line.w));
  EXPECT_TRUE(program.variable("line/w").trainable());
}

}  // namespace
}  // namespace etude::saved_functions_test
