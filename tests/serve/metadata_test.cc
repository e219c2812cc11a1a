// SPDX-License-Identifier: Apache-2.0
// The inputs and outputs of a saved function, as the protocol describes them.
#include "serve/metadata.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/ops.h"
#include "etude/saved/saved.h"
#include "tests/temp_folder.h"

namespace etude::serve {
namespace {

// The metadata of a function that was called with these tensors, saved and loaded.
template <class F>
ModelMetadata metadata_after(const F& f, const std::vector<std::vector<Tensor>>& calls) {
  const internal::TempFolder folder;
  const std::string path = (folder.path() / "f").string();
  const auto g = function(f, {.arg_names = {"x", "y"}});
  for (const std::vector<Tensor>& each : calls) g(each[0], each[1]);
  saved::save(path, {{"f", g}});
  const saved::Program program = saved::load(path);
  return metadata_of(program, program.function("f"));
}

Tensor sum_of(const Tensor& x, const Tensor& y) { return x + y; }

TEST(Metadata, OpenSizesAndTheBatchAxis) {
  const ModelMetadata same =
      metadata_after(sum_of, {{ones({2, 3}), ones({2, 3})}, {ones({5, 3}), ones({5, 3})}});
  ASSERT_EQ(same.inputs.size(), 2U);
  EXPECT_EQ(same.inputs[0].name, "x");
  EXPECT_EQ(same.inputs[0].dtype, kFloat32);
  EXPECT_EQ(same.inputs[0].shape, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(same.inputs[1].shape, (std::vector<int64_t>{-1, 3}));
  EXPECT_TRUE(same.has_batch_axis);
  EXPECT_FALSE(same.outputs[0].is_known);
}

TEST(Metadata, OneGraphHasNoOpenSize) {
  const ModelMetadata fixed = metadata_after(sum_of, {{ones({2, 3}), ones({2, 3})}});
  EXPECT_EQ(fixed.inputs[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(fixed.outputs[0].is_known);
  EXPECT_EQ(fixed.outputs[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(fixed.has_batch_axis);
}

// Rows may depend on each other in the graph that a probe does not call.
TEST(Metadata, SeveralGraphsHaveNoBatchAxis) {
  const ModelMetadata ranks = metadata_after(sum_of, {{ones({2, 3}), ones({2, 3})},
                                                      {ones({5, 3}), ones({5, 3})},
                                                      {ones({2, 3, 3}), ones({2, 3, 3})},
                                                      {ones({5, 3, 3}), ones({5, 3, 3})}});
  EXPECT_EQ(ranks.graphs, 2U);
  EXPECT_FALSE(ranks.inputs[0].fixed_rank);
  EXPECT_FALSE(ranks.has_batch_axis);
}

TEST(Metadata, OtherOpenSizesAreNoBatchAxis) {
  const auto product = [](const Tensor& x, const Tensor& y) { return matmul(x, y); };
  const ModelMetadata apart =
      metadata_after(product, {{ones({2, 3}), ones({3, 2})}, {ones({2, 5}), ones({5, 2})}});
  EXPECT_EQ(apart.inputs[0].shape, (std::vector<int64_t>{2, -1}));
  EXPECT_FALSE(apart.has_batch_axis);
  // Axis 1 has the size of axis 0, too.
  const ModelMetadata square =
      metadata_after(product, {{ones({3, 3}), ones({3, 2})}, {ones({5, 5}), ones({5, 2})}});
  EXPECT_EQ(square.inputs[0].shape, (std::vector<int64_t>{-1, -1}));
  EXPECT_FALSE(square.has_batch_axis);
}

std::string refusal_of(const ModelMetadata& metadata, const io::NamedTensors& inputs) {
  try {
    check_inputs("m", metadata, inputs);
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

TEST(Metadata, RefusesInputs) {
  ModelMetadata metadata;
  metadata.inputs = {{"x", kFloat32, {-1, 4}}, {"y", kInt64, {}}};
  const Tensor x = ones({2, 4}), y = zeros({}, {.dtype = kInt64});
  EXPECT_EQ(refusal_of(metadata, {{"x", x}, {"y", y}}), "");
  EXPECT_EQ(refusal_of(metadata, {{"x", x}, {"z", y}}),
            "model 'm' has no input 'z'. Its inputs: x, y");
  EXPECT_EQ(refusal_of(metadata, {{"x", x}}),
            "model 'm': input 'y' is missing; it is INT64 of shape []");
  EXPECT_EQ(refusal_of(metadata, {{"x", y}}),
            "model 'm': input 'x' is INT64 of shape [], but the model needs FP32 of shape [-1,4]");
  EXPECT_EQ(refusal_of(metadata, {{"x", ones({2, 5})}}),
            "model 'm': input 'x' is FP32 of shape [2,5], but the model needs FP32 of shape "
            "[-1,4]");
  metadata.inputs[0].fixed_rank = false;
  EXPECT_EQ(refusal_of(metadata, {{"x", ones({7})}, {"y", y}}), "");
}

TEST(Metadata, RefusesComplexNumbers) {
  const auto f = [](const Tensor& x, const Tensor& y) { return fft::fft(x + y); };
  try {
    metadata_after(f, {{ones({2}), ones({2})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("output 'output' of function 'f' is complex64[2], but the protocol "
                                "has the datatypes BOOL, UINT8"),
              std::string::npos)
        << error.text();
  }
}

}  // namespace
}  // namespace etude::serve
