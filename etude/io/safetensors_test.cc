// SPDX-License-Identifier: Apache-2.0
#include "etude/io/safetensors.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/base/error.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::io {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using etude::tests::error_of;

class SafetensorsTest : public ::testing::Test {
 protected:
  fs::path file(const char* name = "model.safetensors") const { return folder_ / name; }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

struct Affine {
  Tensor weight, bias;
};
struct Network {
  Affine first, second;
  std::vector<Affine> more;
  NoDerivative<Tensor> running;
};

Network network(double value) {
  return {{Tensor({{value, 2.0}}), Tensor({value})},
          {Tensor({{3.0, 4.0}}), Tensor({5.0})},
          {{Tensor({6.0}), Tensor({7.0})}},
          {Tensor({8.0})}};
}

template <class T>
Tensor numbers(const Shape& shape) {
  std::vector<T> values;
  for (int i = 0; i < shape.count(); ++i) values.push_back(T(static_cast<float>(i % 2)));
  return Tensor(values, shape);
}

// spec: T3.b, K2.a
TEST_F(SafetensorsTest, EveryDTypeKeepsItsBits) {
  NamedTensors all;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    visit_dtype(dtype, [&]<class T>() {
      for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 4}}) {
        all.emplace(std::string(name(dtype)) + shape.to_string(), numbers<T>(shape));
      }
    });
  }
  all["nan"] = Tensor(std::vector<float>{std::nanf("5"), -0.0f, INFINITY});
  save_safetensors(file(), all, {{"note", "all dtypes"}});
  const SafetensorsFile back = load_safetensors(file());
  ASSERT_EQ(back.tensors.size(), all.size());
  for (const auto& [name, tensor] : all) {
    EXPECT_TRUE(same_value(tensor, back.tensors.at(name))) << name;
  }
  EXPECT_EQ(back.metadata, (Metadata{{"note", "all dtypes"}}));
}

// spec: K1.a
TEST_F(SafetensorsTest, ModelsAreSavedByPath) {
  save(network(1.0), file());
  const NamedTensors saved = load_safetensors(file()).tensors;
  std::vector<std::string> paths;
  for (const auto& [path, tensor] : saved) paths.push_back(path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{"first/bias", "first/weight", "more/0/bias", "more/0/weight",
                                      "running", "second/bias", "second/weight"}));
  Network other = network(9.0);
  other.running.value = Tensor({0.0});
  const LoadReport report = load(other, file());
  EXPECT_TRUE(report.is_complete());
  EXPECT_EQ(report.loaded.size(), 7u);
  EXPECT_TRUE(same_value(other.first.weight, Tensor({{1.0, 2.0}})));
  EXPECT_TRUE(same_value(other.running.value, Tensor({8.0})));
}

// spec: K1.a
TEST_F(SafetensorsTest, TwoTensorsOfOnePathAreRefused) {
  const std::map<std::string, std::map<std::string, Tensor>> maps = {
      {"x", {{"y/z", Tensor({1.0})}}}, {"x/y", {{"z", Tensor({2.0})}}}};
  const std::string text = error_of(ErrorCode::kInvalidArgument, [&] { save(maps, file()); });
  EXPECT_NE(text.find("two tensors have the path 'x/y/z', and a file holds one tensor for a path. "
                      "Rename a key of a map"),
            std::string::npos)
      << text;
  EXPECT_FALSE(fs::exists(file()));
}

// spec: K3.a
TEST_F(SafetensorsTest, AMisfitIsReportedWithPathsAndChangesNothing) {
  NamedTensors tensors = named_tensors(network(1.0));
  tensors.erase("second/bias");
  tensors["third/bias"] = Tensor({1.0});
  tensors["first/bias"] = Tensor({1, 2});
  save_safetensors(file(), tensors);
  Network model = network(9.0);
  const std::string text = error_of(ErrorCode::kInvalidArgument, [&] { load(model, file()); });
  EXPECT_NE(text.find("5 loaded, 1 missing, 1 superfluous, 1 of another type"), std::string::npos)
      << text;
  EXPECT_NE(text.find("second/bias"), std::string::npos);
  EXPECT_NE(text.find("third/bias"), std::string::npos);
  EXPECT_NE(text.find("first/bias: float32[1] here, int32[2] in " + file().string()),
            std::string::npos);
  EXPECT_TRUE(same_value(model.first.weight, network(9.0).first.weight));

  const LoadReport report = load(model, file(), {.strict = false});
  EXPECT_EQ(report.missing, std::vector<std::string>{"second/bias"});
  EXPECT_EQ(report.extra, std::vector<std::string>{"third/bias"});
  EXPECT_TRUE(same_value(model.first.weight, network(1.0).first.weight));
  EXPECT_TRUE(same_value(model.first.bias, network(9.0).first.bias));
}

// spec: K1.b
TEST_F(SafetensorsTest, PathsCanBeIgnoredAndRenamed) {
  NamedTensors tensors = named_tensors(network(1.0));
  tensors.erase("second/weight");
  tensors.erase("second/bias");
  tensors["old/name"] = Tensor({42.0});
  tensors.erase("more/0/bias");
  save_safetensors(file(), tensors);
  Network model = network(9.0);
  load(model, file(), {.ignore = {"second"}, .rename = {{"more/0/bias", "old/name"}}});
  EXPECT_EQ(model.more[0].bias.item<float>(), 42.0f);
  EXPECT_EQ(model.first.bias.item<float>(), 1.0f);
}

// spec: K3.b
TEST_F(SafetensorsTest, DamageNamesFileAndOffset) {
  save_safetensors(file(), {{"flag", Tensor(true)}, {"x", Tensor({1.0, 2.0})}});
  const auto size = fs::file_size(file());
  {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(size - 1));
    stream.put(7);
  }
  const std::string text = error_of(ErrorCode::kDataLoss, [&] { load_safetensors(file()); });
  EXPECT_NE(text.find(file().string()), std::string::npos);
  EXPECT_NE(text.find("offset " + std::to_string(size - 1)), std::string::npos) << text;
  EXPECT_NE(text.find("'flag'"), std::string::npos);
  fs::resize_file(file(), size - 3);
  EXPECT_NE(error_of(ErrorCode::kDataLoss, [&] { load_safetensors(file()); }).find(file().string()),
            std::string::npos);
  fs::resize_file(file(), 0);
  error_of(ErrorCode::kDataLoss, [&] { load_safetensors(file()); });
  EXPECT_NE(error_of(ErrorCode::kNotFound, [&] { load_safetensors(file("none")); }).find("none"),
            std::string::npos);
  error_of(ErrorCode::kInvalidArgument, [&] { load_safetensors(folder_); });
}

TEST_F(SafetensorsTest, AnAbsentTensorCannotBeSaved) {
  EXPECT_NE(error_of(ErrorCode::kInvalidArgument,
                     [&] {
                       save_safetensors(file(), {{"x", Tensor()}});
                     })
                .find("'x' is absent"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(file()));
}

// A writer killed at any write, sync or rename leaves the old file or the new one.
// spec: K1.c
TEST_F(SafetensorsTest, KilledWritersLeaveAWholeFile) {
  save(network(1.0), file());
  int killed = 0;
  for (int n = 1; n < 100; ++n) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("ETUDE_TEST_KILL_AT_WRITE", std::to_string(n).c_str(), 1);
      save(network(2.0), file());
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    Network model = network(0.0);
    load(model, file());
    const float value = model.first.bias.item<float>();
    EXPECT_TRUE(value == 1.0f || value == 2.0f);
    if (WEXITSTATUS(status) == 0) {
      EXPECT_EQ(value, 2.0f);
      break;
    }
    ++killed;
  }
  EXPECT_GE(killed, 9);  // header, seven tensors, fsync, rename
}

}  // namespace
}  // namespace etude::io
