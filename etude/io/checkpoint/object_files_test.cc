// SPDX-License-Identifier: Apache-2.0
// The files of object graphs: damaged files, savers that are killed or share a folder, and hostile
// manifests.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/files/crc32c.h"
#include "etude/io/checkpoint/object_checkpoint.h"
#include "etude/io/checkpoint/object_graph.h"
#include "etude/ops.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::io {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using tests::expect_error;

class ObjectFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  const TempFolder folder_;
};

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// spec: CK-17.b
TEST_F(ObjectFiles, DamagedFilesAreNamed) {
  Tensor x({1.0, 2.0}), y(3.0);
  Checkpoint checkpoint{{"x", x}, {"y", y}};
  checkpoint.write(path("x"), {.shard_bytes = 8});
  int files = 0;
  for (const auto& entry : fs::directory_iterator(path("x"))) {
    const std::string good = content(entry.path());
    const auto refuses = [&](const std::string& bytes) {
      std::ofstream(entry.path(), std::ios::binary) << bytes;
      expect_error([&] { checkpoint.restore(path("x")); }, ErrorCode::kDataLoss,
                   {entry.path().string() + ": offset "});
    };
    for (std::size_t n = 0; n < good.size(); ++n) {
      refuses(good.substr(0, n));
      std::string flipped = good;
      flipped[n] = static_cast<char>(flipped[n] ^ 1);
      refuses(flipped);
    }
    refuses(good + " ");
    std::ofstream(entry.path(), std::ios::binary) << good;
    ++files;
  }
  EXPECT_EQ(files, 3);  // two shards and the manifest
  checkpoint.restore(path("x")).assert_consumed();
}

// A save that ends at any write, fsync or rename leaves the checkpoint before it or the new one.
// spec: CK-17.a
TEST_F(ObjectFiles, AKilledSaveLosesNothing) {
  for (const bool same_folder : {false, true}) {  // numbered files; a file that is overwritten
    Tensor x({1.0, 2.0}), y(1.0);
    Checkpoint checkpoint{{"x", x}, {"y", y}};
    const auto save = [&](const std::string& run) {
      if (same_folder) {
        checkpoint.write(run + "/m", {.shard_bytes = 8});
      } else {
        checkpoint.save(run + "/m", {.shard_bytes = 8});
      }
    };
    const std::string first = path(same_folder ? "same" : "numbered");
    save(first);
    x = Tensor({5.0, 6.0});
    y = Tensor(5.0);
    int end = 0;
    for (int n = 1; end == 0; ++n) {
      const std::string run = first + std::to_string(n);
      fs::copy(first, run, fs::copy_options::recursive);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        setenv("ETUDE_TEST_KILL_AT_WRITE", std::to_string(n).c_str(), 1);
        save(run);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      ASSERT_TRUE(WEXITSTATUS(status) == 137 || WEXITSTATUS(status) == 0);
      if (WEXITSTATUS(status) == 0) end = n;
      Tensor x2({0.0, 0.0}), y2(0.0);
      Checkpoint found{{"x", x2}, {"y", y2}};
      found.restore(same_folder ? run + "/m" : latest_checkpoint(run)).assert_consumed();
      EXPECT_TRUE(same_value(x2, end != 0 || y2.item<float>() == 5 ? x : Tensor({1.0, 2.0}))) << n;
      EXPECT_TRUE(end == 0 || y2.item<float>() == 5) << n;
      EXPECT_TRUE(n > 10 || y2.item<float>() == 1) << n;
      if (n % 6 == 0) save(run);  // goes on
    }
    EXPECT_GE(end, 12);
  }
}

// Savers of several processes in one folder take turns, and each number is one checkpoint.
// spec: CK-17.a
TEST_F(ObjectFiles, SaversInOneFolderTakeTurns) {
  constexpr int kSavers = 3, kSaves = 8;
  std::vector<pid_t> savers;
  for (int saver = 1; saver <= kSavers; ++saver) {
    savers.push_back(fork());
    ASSERT_GE(savers.back(), 0);
    if (savers.back() != 0) continue;
    Tensor x(0.0), y(0.0);
    Checkpoint checkpoint{{"x", x}, {"y", y}};
    CheckpointManager manager(checkpoint, path("run"), {.max_to_keep = 3, .shard_bytes = 4});
    for (int i = 0; i < kSaves; ++i) {
      x = y = Tensor(100.0F * static_cast<float>(saver) + static_cast<float>(i));
      manager.save();
    }
    _exit(0);
  }
  Tensor x(0.0), y(0.0);
  Checkpoint found{{"x", x}, {"y", y}};
  int restored = 0;
  for (int left = kSavers; left > 0;) {
    int status = 0;
    if (waitpid(savers[static_cast<std::size_t>(left) - 1], &status, WNOHANG) > 0) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      --left;
    }
    const std::string latest = latest_checkpoint(path("run"));
    if (latest.empty()) continue;
    try {
      found.restore(latest).assert_consumed();
      EXPECT_EQ(x.item<float>(), y.item<float>());
      ++restored;
    } catch (const Error& error) {  // three newer ones came in between
      EXPECT_EQ(to_string(error.code()), to_string(ErrorCode::kNotFound)) << error.what();
    }
  }
  EXPECT_GT(restored, 0);
  found.restore(latest_checkpoint(path("run"))).assert_consumed();
  EXPECT_EQ(x.item<float>(), y.item<float>());
  EXPECT_EQ(found.save_counter(), kSavers * kSaves);
  CheckpointManager manager(found, path("run"));
  EXPECT_EQ(manager.checkpoints().size(), 3u);
  for (const std::string& each : manager.checkpoints()) found.restore(each).assert_consumed();
}

// One checkpoint that is written again and again is restored whole at any time.
TEST_F(ObjectFiles, ARestoreDuringASaveIsTheOldOneOrTheNewOne) {
  Tensor x(0.0), y(0.0);
  Checkpoint checkpoint{{"x", x}, {"y", y}};
  checkpoint.write(path("same"), {.shard_bytes = 4});
  const pid_t saver = fork();
  ASSERT_GE(saver, 0);
  if (saver == 0) {
    for (int i = 1; i <= 40; ++i) {
      x = y = Tensor(static_cast<float>(i));
      checkpoint.write(path("same"), {.shard_bytes = 4});
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(saver, &status, WNOHANG) == 0) {
    checkpoint.restore(path("same")).assert_consumed();
    EXPECT_EQ(x.item<float>(), y.item<float>());
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  checkpoint.restore(path("same")).assert_consumed();
  EXPECT_EQ(x.item<float>(), 40);
}

TEST_F(ObjectFiles, LeftoversOfKilledSaversAreRemoved) {
  Tensor x(1.0);
  Checkpoint checkpoint{{"x", x}};
  CheckpointManager manager(checkpoint, path("run"), {.max_to_keep = 2, .prefix = "m"});
  manager.save();
  fs::create_directory(path("run/m-7"));  // without a manifest
  std::ofstream(path("run/m-7/shard-00001-00001-of-00002.safetensors")) << "x";
  std::ofstream(path("run/m-7/.etude-4-5.tmp")) << "x";
  fs::create_directory(path("run/m-8"));
  std::ofstream(path("run/m-8/notes.txt")) << "x";
  EXPECT_EQ(manager.save(), path("run/m-2"));
  EXPECT_FALSE(fs::exists(path("run/m-7")));
  EXPECT_TRUE(fs::exists(path("run/m-8/notes.txt")));
  // Removing a checkpoint leaves files of others as well.
  std::ofstream(path("run/m-1/notes.txt")) << "x";
  manager.save();
  EXPECT_EQ(manager.checkpoints(), (std::vector<std::string>{path("run/m-2"), path("run/m-3")}));
  EXPECT_TRUE(fs::exists(path("run/m-1/notes.txt")));
}

// The file "latest" may name a removed checkpoint, or be a pipe.
// spec: CK-17.a
TEST_F(ObjectFiles, TheLatestIsTheNewestThatIsThere) {
  Tensor x(1.0);
  Checkpoint checkpoint{{"x", x}};
  for (int i = 0; i < 3; ++i) checkpoint.save(path("m"));
  fs::remove_all(path("m-3"));
  EXPECT_EQ(latest_checkpoint(folder_.path()), path("m-2"));
  fs::remove(path("latest"));
  ASSERT_EQ(mkfifo(path("latest").c_str(), 0666), 0);
  EXPECT_EQ(latest_checkpoint(folder_.path()), "");
  expect_error([&] { checkpoint.save(path("m")); }, ErrorCode::kFailedPrecondition,
               {"cannot save to '" + path("latest") + "': it is a pipe"});
  fs::remove(path("latest"));
  std::ofstream(path("latest")) << "../m-1\n";
  EXPECT_EQ(latest_checkpoint(folder_.path()), "");
}

// A manifest of a long chain, and of a node with many edges, is read in linear time and memory: all
// paths of this chain would have 10 GB.
TEST_F(ObjectFiles, ManifestsAreReadInLinearTime) {
  const auto manifest = [](const std::string& nodes) {
    const std::string body =
        R"({"counter":1,"format":1,"nodes":[)" + nodes + R"(],"shards":[],"tensors":[]})";
    return fmt::format("{{\"crc32c\":\"{:08x}\",\"checkpoint\":{}}}\n",
                       etude::internal::crc32c(0, body), body);
  };
  constexpr int kNodes = 20000;
  std::string chain, star;
  for (int i = 0; i < kNodes; ++i) {
    chain += fmt::format(R"({{"edges":[["e{}",{}]],"values":[]}},)", std::string(50, 'x'), i + 1);
    star += fmt::format(R"({}["e{}",0])", i == 0 ? "" : ",", i);
  }
  const internal::SavedGraph deep("f", manifest(chain + R"({"edges":[],"values":[]})"));
  EXPECT_EQ(deep.path_of(kNodes).size(), kNodes * 52u - 1);
  const internal::SavedGraph wide("f", manifest(R"({"edges":[)" + star + R"(],"values":[]})"));
  EXPECT_EQ(*wide.nodes()[0].edge("e19999"), 0);
  EXPECT_EQ(wide.nodes()[0].edge("e20000"), nullptr);
  const std::string twice = R"({"edges":[)" + star + R"(,["e7",0]],"values":[]})";
  expect_error([&] { internal::SavedGraph("f", manifest(twice)); }, ErrorCode::kDataLoss,
               {"two edges have one name"});
  const std::string brackets(200'000, '['), close(200'000, ']');
  expect_error([&] { internal::SavedGraph("f", manifest(brackets + close)); },
               ErrorCode::kResourceExhausted, {"f/manifest.json: offset ", "100 levels deep"});
}

}  // namespace
}  // namespace etude::io
