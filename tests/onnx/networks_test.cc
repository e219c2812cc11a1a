// SPDX-License-Identifier: Apache-2.0
// Networks that PyTorch exported (networks/make_networks.py) have PyTorch's results, and can be
// trained, saved and exported again.
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

namespace fs = std::filesystem;

fs::path network(const std::string& name) {
  return fs::path(__FILE__).parent_path() / "networks" / name;
}
io::NamedTensors expected(const std::string& name) {
  return io::load_safetensors(network(name + ".safetensors").string()).tensors;
}

struct Network {
  std::string name;
  std::vector<std::string> inputs = {"image"};
  std::vector<std::string> outputs = {"scores"};
  bool can_be_trained = true;  // not through integers
};
std::ostream& operator<<(std::ostream& to, const Network& network) { return to << network.name; }

class OnnxNetworks : public ::testing::TestWithParam<Network> {
 protected:
  saved::Program load() const { return onnx::load(network(GetParam().name + ".onnx")); }
  io::NamedTensors values(const io::NamedTensors& all, const std::string& size,
                          const std::vector<std::string>& names) const {
    io::NamedTensors out;
    for (const std::string& name : names) out[name] = all.at(size + "/" + name);
    return out;
  }
  void expect_results(const saved::Function& f) const {
    const io::NamedTensors all = expected(GetParam().name);
    for (const char* size : {"1", "2", "5"}) {
      const io::NamedTensors got = f.call_named(values(all, size, GetParam().inputs));
      for (const auto& [name, want] : values(all, size, GetParam().outputs)) {
        const Tensor& result = got.at(name);
        EXPECT_TRUE(allclose(result, want, {.rtol = 1e-4, .atol = 1e-5}).item<bool>())
            << size << "/" << name << ": " << max(abs(result - want)).item<float>();
      }
    }
  }
  const internal::TempFolder folder_;
};

TEST_P(OnnxNetworks, ResultsArePyTorchs) { expect_results(load().function("predict")); }

TEST_P(OnnxNetworks, CanBeSavedAndExported) {
  const saved::Program program = load();
  saved::save((folder_.path() / "folder").string(), program);
  expect_results(saved::load((folder_.path() / "folder").string()).function("predict"));
  onnx::save(folder_.path() / "again.onnx", program);
  const saved::Function again = onnx::load(folder_.path() / "again.onnx").function("predict");
  expect_results(again);
  const io::NamedTensors inputs = values(expected(GetParam().name), "5", GetParam().inputs);
  const io::NamedTensors first = program.function("predict").call_named(inputs);
  for (const auto& [name, result] : again.call_named(inputs)) {
    EXPECT_TRUE(array_equal(result, first.at(name)).item<bool>()) << name;
  }
}

TEST_P(OnnxNetworks, CanBeTrained) {
  if (!GetParam().can_be_trained) return;
  const saved::Program program = load();
  const saved::Function predict = program.function("predict");
  const io::NamedTensors inputs = values(expected(GetParam().name), "5", GetParam().inputs);
  const std::vector<Variable> weights = predict.trainable_variables();
  ASSERT_GT(weights.size(), 4U);
  const auto loss = [&](const std::vector<Variable>&) {
    return mean(square(predict.call_named(inputs).at(GetParam().outputs[0])));
  };
  const float before = loss(weights).item<float>();
  optim::Adam adam({.lr = 1e-2});
  for (int i = 0; i < 5; ++i) saved::update(adam, weights, gradient(loss, weights));
  EXPECT_LT(loss(weights).item<float>(), before);
}

INSTANTIATE_TEST_SUITE_P(All, OnnxNetworks,
                         ::testing::Values(Network{"convolutions"}, Network{"sequence", {"ids"}},
                                           Network{"resnet"}, Network{"encoder", {"ids"}},
                                           Network{"packed", {"rows", "lengths"}}, Network{"unet"},
                                           Network{"quantised", {"rows"}, {"scores"}, false}),
                         [](const auto& info) { return info.param.name; });

TEST(OnnxDetector, HasPyTorchsResults) {
  const io::NamedTensors all = expected("detector");
  const saved::Program program = onnx::load(network("detector.onnx"));
  const io::NamedTensors got = program.function("predict").call_named(
      {{"image", all.at("1/image")}, {"regions", all.at("1/regions")}});
  for (const char* name : {"boxes", "scores", "classes"}) {
    const Tensor& want = all.at(std::string("1/") + name);
    EXPECT_TRUE(allclose(got.at(name), want, {.rtol = 1e-4, .atol = 1e-5}).item<bool>()) << name;
  }
}

// The number of boxes that are kept depends on the boxes, so they are fixed.
TEST(OnnxDetector, SuppressesFixedBoxes) {
  const fs::path file = network("suppression.onnx");
  tests::expect_error(
      [&] { onnx::load(file); }, ErrorCode::kFailedPrecondition,
      {"(NonMaxSuppression): the input 'boxes'", "LoadOptions::constants", "\"boxes\""});
  const io::NamedTensors all = expected("suppression");
  onnx::LoadOptions options;
  options.constants = {{"boxes", all.at("1/boxes")}, {"scores", all.at("1/scores")}};
  const saved::Program program = onnx::load(file, options);
  const io::NamedTensors got = program.function("predict").call_named({});
  for (const char* name : {"best", "kept"}) {
    EXPECT_TRUE(allclose(got.at(name), all.at(std::string("1/") + name)).item<bool>()) << name;
  }
}

}  // namespace
}  // namespace etude::onnx_test
