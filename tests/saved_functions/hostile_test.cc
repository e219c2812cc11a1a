// SPDX-License-Identifier: Apache-2.0
// Folders of saved functions that are damaged or hostile, and savers that are killed.
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/files/crc32c.h"
#include "etude/files/read_limits.h"
#include "tests/expect_error.h"
#include "tests/saved_functions/saved_folder.h"

namespace etude::saved_functions_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using tests::expect_error;

// A folder with all kinds of content: state, constants, an asset, objects, an exported signature.
class HostileFolders : public SavedFolder {
 protected:
  HostileFolders() {
    write_to(path("words.txt"), "a b c");
    save("f", 1.0);
  }
  // A program whose state and constants are `value`.
  void save(const std::string& name, double value) const {
    const Variable w(Tensor({value, value}), {.name = "w"});
    const Tensor table = full({4}, value);
    const auto f = function([&](const Tensor& x, int by) { return x * w * by + sum(table); },
                            {.name = "f", .arg_names = {"x", "by"}});
    f(ones({2}), 2);
    saved::save(path(name), {{"f", f}, {"w", w}, {"extras", Parts::fields({{"n", Described(3)}})}},
                {.signatures = {"f"}, .assets = {path("words.txt")}});
  }
  // Loads and runs. Returns the value of the state.
  double run(const std::string& name) const {
    const saved::Program program = saved::load(path(name));
    const auto w = static_cast<double>(program.variable("w").read().at(0).item<float>());
    const Tensor y = program.function("f").as<Tensor(const Tensor&, int)>()(ones({2}), 2);
    EXPECT_EQ(static_cast<double>(y.at(1).item<float>()), 6 * w);
    EXPECT_EQ(content_of(program.asset("words.txt")), "a b c");
    return w;
  }
  // The manifest, changed by fn, with a valid checksum.
  template <class Fn>
  void change(const Fn& fn) const {
    const std::string file = path("f") + "/saved.json";
    json body = json::parse(body_of(content_of(file)));
    fn(body);
    write_to(file, manifest_of(body.dump()));
  }
};

// spec: SV-12.a
TEST_F(HostileFolders, DamagedFilesAreNamed) {
  EXPECT_EQ(run("f"), 1.0);
  int files = 0;
  for (const auto& [name, good] : files_of(path("f"))) {
    const std::string file = path("f") + "/" + name;
    const auto refuses = [&](const std::string& bytes) {
      write_to(file, bytes);
      expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss, {file + ": offset "});
    };
    for (std::size_t n = 0; n < good.size(); ++n) {
      refuses(good.substr(0, n));
      if (n % 3 != 0) continue;
      std::string flipped = good;
      flipped[n] = static_cast<char>(flipped[n] ^ (1 << (n % 8)));
      refuses(flipped);
    }
    refuses(good + " ");
    write_to(file, good);
    fs::remove(file);
    const bool is_manifest = name == "saved.json";
    expect_error([&] { saved::load(path("f")); },
                 is_manifest ? ErrorCode::kNotFound : ErrorCode::kDataLoss, {path("f")});
    write_to(file, good);
    ++files;
  }
  EXPECT_EQ(files, 4);  // manifest, graphs, tensors, the asset
  EXPECT_EQ(run("f"), 1.0);
}

// The places of all values of a manifest: lists and objects too.
void add_places(const json& value, const json::json_pointer& at,
                std::vector<json::json_pointer>& to) {
  to.push_back(at);
  if (!value.is_structured()) return;
  for (const auto& [key, part] : value.items()) {
    add_places(part, value.is_array() ? at / std::stoul(key) : at / key, to);
  }
}

// Each value of the manifest is replaced by values of other kinds, or removed, with a valid
// checksum: an error of the caller, or a program that still runs.
// spec: SV-12.a
TEST_F(HostileFolders, ManifestsWithOtherValues) {
  const std::string file = path("f") + "/saved.json";
  const json good = json::parse(body_of(content_of(file)));
  std::vector<json::json_pointer> places;
  add_places(good, json::json_pointer(), places);
  const std::vector<json> others = {-1,
                                    0,
                                    1,
                                    int64_t{1} << 40,
                                    1e300,
                                    "x",
                                    "",
                                    "../x",
                                    true,
                                    false,
                                    nullptr,
                                    json::array(),
                                    json::object(),
                                    json::array({0, 0})};
  int refused = 0;
  const auto try_out = [&](const json& changed, const std::string& what) {
    if (changed == good) return;
    write_to(file, manifest_of(changed.dump()));
    try {
      const saved::Program program = saved::load(path("f"));
      static_cast<void>(program.to_string());
      program.function("f").call_named({{"x", ones({2})}});
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(error.code(), ErrorCode::kInternal) << what << ": " << error.what();
    }
  };
  for (const json::json_pointer& place : places) {
    for (const json& other : others) {
      json changed = good;
      changed[place] = other;
      try_out(changed, place.to_string() + " as " + other.dump());
    }
    if (place.empty()) continue;
    json changed = good;
    json& around = changed[place.parent_pointer()];
    if (around.is_array()) {
      around.erase(std::stoul(place.back()));
    } else {
      around.erase(place.back());
    }
    try_out(changed, "without " + place.to_string());
  }
  EXPECT_GT(refused, 1000);
  json changed = good;
  changed.erase("constants");
  write_to(file, manifest_of(changed.dump()));
  expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss,
               {file + ": offset 0: 'constants' is missing"});
}

// spec: SV-10.a
TEST_F(HostileFolders, PathsStayInTheFolder) {
  write_to(path("secret"), "a b c");
  for (const char* name : {"../secret", "..", ".", "", "/etc/passwd", "a/b"}) {
    change([&](json& body) { body["assets"][0]["file"] = name; });
    expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss,
                 {"saved.json: offset 0: ", "does not lie in this folder"});
  }
  change([&](json& body) { body["graphs"]["file"] = "saved.json"; });
  expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss,
               {"the file 'saved.json' does not lie in this folder"});
}

// spec: SV-10.a
TEST_F(HostileFolders, LinksAreRefused) {
  std::vector<std::string> names;
  for (const auto& [name, content] : files_of(path("f"))) names.push_back(name);
  for (const std::string& name : names) {
    const fs::path file = fs::path(path("f")) / name;
    fs::rename(file, path("other"));
    fs::create_symlink(path("other"), file);
    expect_error(
        [&] { saved::load(path("f")); }, ErrorCode::kDataLoss,
        {file.string() + ": offset 0: a saved function has regular files only, and no links"});
    fs::remove(file);
    fs::create_hard_link(path("other"), file);
    expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss,
                 {file.string() + ": offset 0: the file has another name too"});
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss, {file.string()});
    fs::remove(file);
    fs::rename(path("other"), file);
  }
  fs::rename(path("f") + "/assets", path("assets"));
  fs::create_directory_symlink(path("assets"), path("f") + "/assets");
  expect_error([&] { saved::load(path("f")); }, ErrorCode::kDataLoss,
               {"/assets: offset 0: it is no folder, but a link"});
}

// spec: SV-12.a
TEST_F(HostileFolders, ManifestsBeyondTheLimits) {
  const std::string file = path("f") + "/saved.json";
  write_to(file, manifest_of(std::string(100000, '[') + std::string(100000, ']')));
  expect_error([&] { saved::load(path("f")); }, ErrorCode::kResourceExhausted, {file, "levels"});
  json deep = json{{"leaf", {{"kind", "host"}, {"value", 1}}}};
  for (int i = 0; i < 200; ++i) deep = json{{"list", json::array({deep})}};
  save("f", 1.0);
  change([&](json& body) { body["objects"][0]["parts"] = deep; });
  expect_error([&] { saved::load(path("f")); }, ErrorCode::kResourceExhausted, {file, "levels"});
}

// spec: SV-12.a
TEST_F(HostileFolders, LoopsWithoutEnd) {
  const auto count = [](std::optional<int64_t> most) {
    return function(
        [most](const Tensor& x) {
          return while_loop([](const Tensor& y) { return sum(y) < 10; },
                            [](const Tensor& y) { return y + 1; }, x, {.max_iterations = most});
        },
        {.name = "count"});
  };
  const auto forever = count(std::nullopt), limited = count(50);
  forever(Tensor(1.0));
  limited(Tensor(1.0));
  saved::save(path("forever"), {{"count", forever}});
  saved::save(path("limited"), {{"count", limited}});
  expect_error([&] { saved::load(path("forever"), {.max_loop_steps = 100}); },
               ErrorCode::kResourceExhausted,
               {"saved.json: a while_loop at ", "hostile_test.cc:", "has no limit",
                "at most 100 steps are allowed (LoadOptions::max_loop_steps)"});
  expect_error([&] { saved::load(path("limited"), {.max_loop_steps = 49}); },
               ErrorCode::kResourceExhausted, {"has a limit of 50 steps"});
  const saved::Program program = saved::load(path("limited"), {.max_loop_steps = 50});
  EXPECT_EQ(program.function("count").as<OfOne>()(Tensor(1.0)).item<float>(), 10.0F);
  expect_error([&] { saved::load(path("limited"), {.max_loop_steps = -1}); },
               ErrorCode::kInvalidArgument, {"max_loop_steps"});
}

// A save that ends at any write, fsync, rename or removal leaves the old program or the new one.
// spec: SV-01.a
TEST_F(HostileFolders, AKilledSaveLosesNothing) {
  for (const bool has_old : {true, false}) {
    int end = 0, old = 0;
    for (int n = 1; end == 0; ++n) {
      const std::string name = fmt::format("killed-{}-{}", has_old ? "old" : "none", n);
      if (has_old) fs::copy(path("f"), path(name), fs::copy_options::recursive);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        setenv("ETUDE_TEST_KILL_AT_WRITE", std::to_string(n).c_str(), 1);
        save(name, 2.0);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      ASSERT_TRUE(WEXITSTATUS(status) == 137 || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
      if (WEXITSTATUS(status) == 0) end = n;
      if (!has_old && !saved::is_saved(path(name))) {
        expect_error([&] { saved::load(path(name)); }, ErrorCode::kNotFound,
                     {"there are no saved functions in"});
      } else {
        const double found = run(name);
        EXPECT_TRUE(found == 2.0 || (has_old && end == 0 && found == 1.0)) << n;
        old += found == 1.0 ? 1 : 0;
      }
      save(name, 3.0);  // goes on, and removes the files of the killed saver
      EXPECT_EQ(run(name), 3.0);
      EXPECT_EQ(files_of(path(name)).size(), 4U);
    }
    EXPECT_GE(end, 12);
    EXPECT_TRUE(!has_old || old >= 10) << old;
  }
}

// spec: SV-01.a
TEST_F(HostileFolders, AFailedWriteLeavesTheOldProgramAndNoFile) {
  const auto before = files_of(path("f"));
  for (const char* name : {"f", "new"}) {
    for (int n = 1; n < 6; ++n) {
      setenv("ETUDE_TEST_FAIL_AT_WRITE", std::to_string(n).c_str(), 1);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        try {
          save(name, 2.0);
        } catch (const Error& error) {
          _exit(error.code() == ErrorCode::kDataLoss ? 3 : 4);
        }
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(WEXITSTATUS(status), 3) << n;
      unsetenv("ETUDE_TEST_FAIL_AT_WRITE");
      EXPECT_EQ(run("f"), 1.0);
      EXPECT_EQ(files_of(path("f")), before) << n;
      EXPECT_FALSE(fs::exists(path("new"))) << n;
    }
  }
}

}  // namespace
}  // namespace etude::saved_functions_test
