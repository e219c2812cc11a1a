// SPDX-License-Identifier: Apache-2.0
// Files and samples in functions that are being traced: tensors without elements are refused.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

using internal::TempFolder;
using tests::expect_error;

// Runs `f` on a value of a trace.
Tensor traced(const std::function<Tensor(const Tensor&)>& f) {
  return function([&](const Tensor& x) { return f(x * 2.0F); }, {.name = "f"})(ones({2, 3}));
}

TEST(FilesInFunctions, ValuesOfATraceAreNotSaved) {
  const TempFolder folder;
  const std::string path = (folder.path() / "x").string();
  const auto saves = [&](const Tensor& x) {
    io::save_safetensors(path, {{"weight", x}});
    return x;
  };
  expect_error([&] { traced(saves); }, ErrorCode::kFailedPrecondition,
               {"tensor 'weight' cannot be saved here", "in function 'f', which is being traced"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  expect_error(
      [&] {
        vmap(saves)(ones({2, 3}));
      },
      ErrorCode::kFailedPrecondition,
      {"tensor 'weight' cannot be saved here", "one example of a vmap"});
  saves(ones({2}));
  EXPECT_EQ(io::load_safetensors(path).tensors.at("weight").to_vector<float>(),
            (std::vector<float>{1, 1}));
}

TEST(FilesInFunctions, WeightsAreLoadedIntoConstants) {
  const TempFolder folder;
  const std::string path = (folder.path() / "x").string();
  io::save_safetensors(path, {{"weight", Tensor({2.0, 3.0, 4.0})}});
  const auto loads = [&](const Tensor& x) {
    return x * io::load_safetensors(path).tensors.at("weight");
  };
  EXPECT_EQ(traced(loads).to_vector<float>(), (std::vector<float>{4, 6, 8, 4, 6, 8}));
}

// A traced Variable has a future value, which a checkpoint cannot save.
TEST(FilesInFunctions, VariablesAreNotSavedInATrace) {
  const TempFolder folder;
  const std::string path = (folder.path() / "x").string();
  Variable v(1.0, {.name = "v"});
  io::Checkpoint checkpoint{{"v", v}};
  const auto through = [&](const Tensor& x) {
    v.assign(sum(x));
    checkpoint.write(path);
    v.assign(0.0F);
    checkpoint.restore(path);
    return v.read();
  };
  expect_error([&] { traced(through); }, ErrorCode::kFailedPrecondition,
               {"Variable 'v' cannot be saved in function 'f'", "run_eagerly"});
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(v.read().item<float>(), 1);
  EXPECT_EQ(through(ones({3})).item<float>(), 3);
  const auto restores = [&](const Tensor& x) {
    checkpoint.restore(path);
    return x + v;
  };
  v.assign(5.0F);
  expect_error([&] { traced(restores); }, ErrorCode::kFailedPrecondition,
               {"Variable 'v' cannot be restored in function 'f'"});
  EXPECT_EQ(v.read().item<float>(), 5);
  const auto eagerly = function(through, {.run_eagerly = true});
  EXPECT_EQ(eagerly(ones({4})).item<float>(), 4);
}

// The second run of recompute_grad sees the effects of saving and restoring in the first run.
TEST(FilesInFunctions, AFunctionRunsAgainWithItsCheckpoint) {
  const TempFolder folder;
  const std::string path = (folder.path() / "x").string();
  Variable v(1.0);
  io::Checkpoint checkpoint{{"v", v}};
  const auto f = recompute_grad([&](const Tensor& x) {
    v.assign(sum(x));
    checkpoint.write(path);
    v.assign(0.0F);
    checkpoint.restore(path);
    return sum(x * x) * v;  // v is a constant here
  });
  const auto twice = [&](const Tensor& x) {
    const Tensor first = f(x);
    return first + f(x * 2.0F);
  };
  const Tensor slope = gradient(twice, ones({3}));
  EXPECT_EQ(slope.to_vector<float>(), (std::vector<float>{54, 54, 54}));  // 2 * 3 + 2 * 2 * 6 * 2
  EXPECT_EQ(v.read().item<float>(), 6);
}

// A restored value waits for its Variable, which takes it when it is made.
TEST(FilesInFunctions, AVariableThatATraceMakesIsRestored) {
  const TempFolder folder;
  const std::string path = (folder.path() / "x").string();
  struct Root : io::Trackable {};
  {
    Root root;
    root.track("v", Variable(7.0F));
    io::Checkpoint({{"root", root}}).write(path);
  }
  Root root;
  io::Checkpoint checkpoint{{"root", root}};
  const io::RestoreStatus status = checkpoint.restore(path);
  std::optional<Variable> v;
  const auto f = function([&](const Tensor& x) {
    if (!v) v.emplace(root.track("v", Variable(0.0F)));
    return x * *v;
  });
  EXPECT_EQ(f(Tensor(2.0F)).item<float>(), 14);
  status.assert_consumed();
}

TEST(FilesInFunctions, SamplesAreTensorsWithElements) {
  const std::vector<int64_t> rows = {1, 0};
  expect_error([&] { traced([&](const Tensor& x) { return data::take_rows(x, rows); }); },
               ErrorCode::kFailedPrecondition, {"take_rows", "which is being traced"});
  expect_error([] { traced([](const Tensor& x) { return data::slice_rows(x, 0, 1); }); },
               ErrorCode::kFailedPrecondition, {"slice_rows", "which is being traced"});
  expect_error([] { traced([](const Tensor& x) { return data::row_at(x, 1); }); },
               ErrorCode::kFailedPrecondition, {"row_at", "which is being traced"});
  const auto stacks = [](const Tensor& x) {
    const Tensor* const all[] = {&x, &x};
    return data::stack_rows(all);
  };
  expect_error([&] { traced(stacks); }, ErrorCode::kFailedPrecondition,
               {"stack_rows", "which is being traced"});
}

}  // namespace
}  // namespace etude
