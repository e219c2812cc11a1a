// SPDX-License-Identifier: Apache-2.0
// Exported signatures, assets, content that cannot be saved, and versions.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "etude/files/crc32c.h"
#include "tests/expect_error.h"
#include "tests/saved_functions/saved_folder.h"
#include "tests/warnings.h"

namespace etude::saved_functions_test {
namespace {

using tests::expect_error;
namespace fs = std::filesystem;

class SavedExports : public SavedFolder {};

struct ExportedBatch {
  Tensor image, mask;
};
struct ExportedScores {
  Tensor loss, accuracy;
};

// spec: SV-07.a, SV-07.b
TEST_F(SavedExports, NamedInputsAndAFlatMapOfOutputs) {
  const auto one =
      function([](const Tensor& x) { return x * 2; }, {.name = "one", .arg_names = {"x"}});
  const auto two = function(
      [](const Tensor& x) {
        return ExportedScores{sum(x), mean(x)};
      },
      {.name = "two", .arg_names = {"x"}});
  const Tensor x({1.0, 3.0});
  one(x);
  two(x);
  saved::save(path("f"), {{"one", one}, {"two", two}}, {.signatures = {"one", "two"}});
  const saved::Program program = saved::load(path("f"));
  const std::vector<saved::ExportedSignature> all = program.signatures();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].function, "one");
  EXPECT_EQ(all[0].inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(all[0].outputs, std::vector<std::string>{"output"});
  EXPECT_EQ(all[1].outputs, (std::vector<std::string>{"loss", "accuracy"}));
  const io::NamedTensors got = program.function("two").call_named({{"x", x}});
  EXPECT_EQ(got.at("loss").item<float>(), 4.0F);
  EXPECT_EQ(got.at("accuracy").item<float>(), 2.0F);
  expect_error(
      [&] {
        program.function("two").call_named({{"y", x}});
      },
      ErrorCode::kInvalidArgument, {"function 'two' has no input 'y'. It has: x"});
}

// A layer without a bias: no caller can pass a tensor that the bound object lacks.
TEST_F(SavedExports, AbsentTensorsOfBoundObjectsAreNoInputs) {
  nn::Dense layer(2, 3, {.bias = false});
  const auto f = function([](const nn::Dense& l, const Tensor& x) { return l(x); },
                          {.arg_names = {"layer", "x"}});
  const Tensor x = ones({4, 2});
  const Tensor expected = f(layer, x);
  saved::save(path("f"), {{"f", saved::bind(f, layer)}}, {.signatures = {"f"}});
  const saved::Program program = saved::load(path("f"));
  const saved::Function loaded = program.function("f");
  EXPECT_EQ(loaded.signatures()[0].to_string(), "(x: float32[4,2])");
  EXPECT_EQ(loaded.signatures()[0].inputs[0].sizes, (std::vector<saved::PortSize>{{4}, {2}}));
  EXPECT_EQ(program.signatures()[0].inputs, std::vector<std::string>{"x"});
  EXPECT_TRUE(same_value(loaded.as<Tensor(const Tensor&)>()(x), expected));
  EXPECT_TRUE(same_value(loaded.call_named({{"x", x}}).at("output"), expected));
  saved::save(path("again"), program);
  EXPECT_EQ(saved::load(path("again")).signatures()[0].inputs, std::vector<std::string>{"x"});
}

// spec: SV-07.c
TEST_F(SavedExports, NestedAndHostOutputsAreRefused) {
  const auto nested = function(
      [](const Tensor& x) {
        return std::pair{ExportedScores{x, x}, x};
      },
      {.name = "nested"});
  const auto host = function([](const Tensor& x) { return std::pair{x, 3}; }, {.name = "host"});
  nested(Tensor(1.0));
  host(Tensor(1.0));
  expect_error(
      [&] {
        saved::save(path("f"), {{"nested", nested}}, {.signatures = {"nested"}});
      },
      ErrorCode::kInvalidArgument,
      {"function 'nested' returns [{loss: tensor, accuracy: tensor}, tensor], but an exported "
       "signature has tensors with names"});
  expect_error(
      [&] {
        saved::save(path("f"), {{"host", host}}, {.signatures = {"host"}});
      },
      ErrorCode::kInvalidArgument,
      {"function 'host' returns '1', which is a host value", "has tensors only"});
  expect_error(
      [&] {
        saved::save(path("f"), {{"host", host}}, {.signatures = {"most"}});
      },
      ErrorCode::kInvalidArgument,
      {"names 'most', but no function has this name. There are: host"});
}

// spec: SV-07.d
TEST_F(SavedExports, IllegalNamesAreChanged) {
  const auto f = function([](const ExportedBatch& b) { return b.image * b.mask; },
                          {.name = "f", .arg_names = {"batch"}});
  f({Tensor(2.0), Tensor(3.0)});
  const std::vector<std::string> told = tests::warnings_of([&] {
    saved::save(path("f"), {{"f", f}}, {.signatures = {"f"}});
  });
  ASSERT_EQ(told.size(), 2U);
  EXPECT_TRUE(tests::contains(told[0], "'batch/image' of function 'f' is called 'batch_image'"))
      << told[0];
  const saved::Program program = saved::load(path("f"));
  EXPECT_EQ(program.signatures()[0].inputs,
            (std::vector<std::string>{"batch_image", "batch_mask"}));
  const io::NamedTensors got =
      program.function("f").call_named({{"batch_image", Tensor(2.0)}, {"batch_mask", Tensor(3.0)}});
  EXPECT_EQ(got.at("output").item<float>(), 6.0F);
}

// spec: SV-10.a, SV-10.b, SV-10.c
TEST_F(SavedExports, AssetsAreCopiedStoredOnceAndMoveWithTheFolder) {
  const std::string words(100000, 'w');
  fs::create_directory(path("data"));
  write_to(path("data") + "/words.txt", words);
  write_to(path("data") + "/same.txt", words);
  const Variable v(1.0);
  saved::save(path("f"), {{"v", v}},
              {.assets = {path("data") + "/words.txt", path("data") + "/words.txt",
                          path("data") + "/same.txt"}});
  fs::remove_all(path("data"));
  EXPECT_EQ(saved::load(path("f")).assets(), (std::vector<std::string>{"words.txt", "same.txt"}));
  std::size_t bytes = 0;
  for (const auto& [name, content] : files_of(path("f"))) bytes += content.size();
  EXPECT_LT(bytes, 110000U);  // once
  fs::rename(path("f"), path("moved"));
  const saved::Program program = saved::load(path("moved"));
  EXPECT_EQ(content_of(program.asset("words.txt")), words);
  EXPECT_TRUE(program.asset("words.txt").string().starts_with(path("moved")));
  saved::save(path("again"), program);
  EXPECT_EQ(files_of(path("again")), files_of(path("moved")));
  expect_error([&] { program.asset("word.txt"); }, ErrorCode::kNotFound,
               {"has no asset 'word.txt'. It has: words.txt, same.txt"});
}

// spec: SV-10.a
TEST_F(SavedExports, AssetsOfOneNameAreRefused) {
  fs::create_directories(path("a"));
  fs::create_directories(path("b"));
  write_to(path("a") + "/words.txt", "1");
  write_to(path("b") + "/words.txt", "2");
  const Variable v(1.0);
  expect_error(
      [&] {
        saved::save(path("f"), {{"v", v}},
                    {.assets = {path("a") + "/words.txt", path("b") + "/words.txt"}});
      },
      ErrorCode::kInvalidArgument, {"/a/words.txt' and '", "have one file name"});
  expect_error(
      [&] {
        saved::save(path("f"), {{"v", v}}, {.assets = {path("none.txt")}});
      },
      ErrorCode::kNotFound, {"none.txt"});
}

// spec: SV-11.a
TEST_F(SavedExports, HostFunctionsAreRefusedWithTheLine) {
  const auto huber = host_function([](const Tensor& x) { return x * x; }, TensorSpec{{}, kFloat32},
                                   {.name = "huber"});
  const auto f = function([&](const Tensor& x) { return huber(x) + 1; }, {.name = "f"});
  f(Tensor(1.0));
  expect_error(
      [&] {
        saved::save(path("f"), {{"f", f}});
      },
      ErrorCode::kUnimplemented,
      {"function 'f' calls host_function 'huber'", "exists only in this process",
       "exports_test.cc:"});
}

// spec: SV-11.b
TEST_F(SavedExports, HostStateThatOnlyThisProcessKnows) {
  struct Table {
    int size = 3;
  };
  const auto f =
      function([](const Tensor& x, const std::shared_ptr<Table>& t) { return x * t->size; },
               {.name = "f", .arg_names = {"x", "table"}});
  const auto table = std::make_shared<Table>();
  f(Tensor(1.0), table);
  expect_error(
      [&] {
        saved::save(path("f"), {{"f", f}});
      },
      ErrorCode::kUnimplemented,
      {"function 'f': its graph was made for argument 'table', an object of this process"});
  const auto g = function([](const Tensor& x, Tensor (*h)(const Tensor&)) { return h(x); },
                          {.name = "g", .arg_names = {"x", "h"}});
  g(
      Tensor(1.0), +[](const Tensor& x) { return x * 2; });
  expect_error(
      [&] {
        saved::save(path("f"), {{"g", g}});
      },
      ErrorCode::kUnimplemented, {"function 'g'", "argument 'h' that only this process knows"});
  double k = 2;
  const auto c =
      function([&] { return call_time_value([&] { return Tensor(k); }) + 1; }, {.name = "c"});
  c();
  expect_error(
      [&] {
        saved::save(path("f"), {{"c", c}});
      },
      ErrorCode::kUnimplemented,
      {"function 'c' reads call_time_value at ", "from code of this process"});
}

// spec: SV-12.a
TEST_F(SavedExports, ANewerFormatNamesTheVersionThatIsNeeded) {
  const Variable v(1.0);
  saved::save(path("f"), {{"v", v}});
  std::string body = body_of(content_of(path("f") + "/saved.json"));
  const std::size_t at = body.find("\"format\":1");
  ASSERT_NE(at, std::string::npos);
  body.replace(at, 10, "\"format\":9");
  write_to(path("f") + "/saved.json", manifest_of(body));
  expect_error(
      [&] { saved::load(path("f")); }, ErrorCode::kUnimplemented,
      {"saved.json: the folder has format 9, but this version of Etude reads formats up to "
       "1. Load it with a newer version"});
}

// Replaces `from` in the graphs of a folder by `to`, of the same length, with valid checksums.
void change_graphs(const std::string& folder, const std::string& from, const std::string& to) {
  std::string manifest = content_of(folder + "/saved.json");
  for (const auto& [name, content] : files_of(folder)) {
    if (!name.starts_with("graphs-")) continue;
    std::string bytes = content;
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
    const auto crc = static_cast<uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()) + 16, bytes.size() - 16));
    std::memcpy(bytes.data() + 12, &crc, 4);
    write_to(fs::path(folder) / name, bytes);
    std::string body = body_of(manifest);
    const std::string old_crc = fmt::format("{:08x}", internal::crc32c(0, content));
    const std::size_t place = body.find("\"crc32c\":\"" + old_crc);
    ASSERT_NE(place, std::string::npos);
    body.replace(place + 10, 8, fmt::format("{:08x}", internal::crc32c(0, bytes)));
    write_to(folder + "/saved.json", manifest_of(body));
  }
}

// spec: SV-12.b
TEST_F(SavedExports, AnUnknownOpIsNamed) {
  const auto f = function([](const Tensor& x) { return nn::softplus(x); }, {.name = "f"});
  f(Tensor(1.0));
  saved::save(path("f"), {{"f", f}});
  change_graphs(path("f"), "softplus", "softplux");
  expect_error([&] { saved::load(path("f")); }, ErrorCode::kUnimplemented,
               {"/graphs-", "softplux", "softplus"});
}

// spec: SV-12.c
TEST_F(SavedExports, SizesAbove2GiB) {
  if (std::getenv("ETUDE_LARGE_TESTS") == nullptr) {
    GTEST_SKIP() << "needs 5 GB of memory and 2 GB of disk; set ETUDE_LARGE_TESTS";
  }
  const int64_t size = (int64_t{1} << 31) + 4096;
  Tensor bytes = zeros({size}, {.dtype = kUInt8});
  bytes.at(size - 1) = 7;
  struct TwoResults {
    Variable large, small;
  };
  saved::save(path("f"), {{"two", TwoResults{Variable(std::move(bytes)), Variable(Tensor(3.0))}}});
  const saved::Program program = saved::load(path("f"));
  const Tensor large = program.variable("two/large").read();
  EXPECT_EQ(large.size(), size);
  EXPECT_EQ(large.at(size - 1).item<uint8_t>(), 7);
  EXPECT_EQ(program.variable("two/small").read().item<float>(), 3.0F);
}

}  // namespace
}  // namespace etude::saved_functions_test
