// SPDX-License-Identifier: Apache-2.0
// Networks that PyTorch exported (networks/make_networks.py) have PyTorch's results, and can be
// trained, saved and exported again.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

namespace fs = std::filesystem;

fs::path network(const std::string& name) {
  return fs::path(__FILE__).parent_path() / "networks" / name;
}

class OnnxNetworks : public ::testing::TestWithParam<const char*> {
 protected:
  saved::Program load() const { return onnx::load(network(std::string(GetParam()) + ".onnx")); }
  io::NamedTensors expected() const {
    return io::load_safetensors(network(std::string(GetParam()) + ".safetensors").string()).tensors;
  }
  const internal::TempFolder folder_;
};

TEST_P(OnnxNetworks, ResultsArePyTorchs) {
  const saved::Program program = load();
  const auto f = program.function("predict").as<Tensor(const Tensor&)>();
  const io::NamedTensors all = expected();
  for (const char* size : {"1", "2", "5"}) {
    const Tensor scores = f(all.at(std::string(size) + "/input"));
    EXPECT_TRUE(
        allclose(scores, all.at(std::string(size) + "/scores"), {.rtol = 1e-4, .atol = 1e-5})
            .item<bool>())
        << size;
  }
}

TEST_P(OnnxNetworks, CanBeTrainedSavedAndExported) {
  const saved::Program program = load();
  const saved::Function predict = program.function("predict");
  const auto f = predict.as<Tensor(const Tensor&)>();
  const Tensor x = expected().at("5/input");
  const std::vector<Variable> weights = predict.trainable_variables();
  ASSERT_GT(weights.size(), 4U);
  const auto loss = [&](const std::vector<Variable>&) { return mean(square(f(x))); };
  const float before = loss(weights).item<float>();
  optim::Adam adam({.lr = 1e-2});
  for (int i = 0; i < 5; ++i) saved::update(adam, weights, gradient(loss, weights));
  EXPECT_LT(loss(weights).item<float>(), before);

  saved::save((folder_.path() / "folder").string(), program);
  const auto again = saved::load((folder_.path() / "folder").string())
                         .function("predict")
                         .as<Tensor(const Tensor&)>();
  EXPECT_TRUE(array_equal(again(x), f(x)).item<bool>());
  onnx::save(folder_.path() / "again.onnx", predict);
  const auto second =
      onnx::load(folder_.path() / "again.onnx").function("predict").as<Tensor(const Tensor&)>();
  EXPECT_TRUE(allclose(second(x), f(x), {.rtol = 1e-5, .atol = 1e-6}).item<bool>());
}

INSTANTIATE_TEST_SUITE_P(All, OnnxNetworks, ::testing::Values("convolutions", "sequence"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace etude::onnx_test
