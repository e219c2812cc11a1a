// SPDX-License-Identifier: Apache-2.0
// The checkpoint callback: the kept files, that each of them resumes the run, and that one survives
// a kill.
#include "etude/io/checkpoint/checkpoints.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/base/error.h"
#include "etude/data/loader.h"
#include "etude/device/cpu/parallel.h"
#include "etude/io/checkpoint/object_checkpoint.h"
#include "etude/nn/layers/activations.h"
#include "etude/nn/layers/layers.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::checkpoints_test {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using etude::tests::error_of;

struct Net {
  nn::Dense hidden{2, 4, {.activation = nn::tanh}};
  nn::Dropout dropout{0.2};
  nn::Dense output{4, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(hidden(x))); }
};

data::Samples samples() {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int i = 0; i < 40; ++i) {
    inputs.push_back(std::sin(static_cast<float>(3 * i)));
    inputs.push_back(std::cos(static_cast<float>(5 * i)));
    labels.push_back(inputs[inputs.size() - 2] > inputs.back() ? 1 : 0);
  }
  return {Tensor(inputs, {40, 2}), Tensor(labels)};
}

// 5 steps per epoch.
struct Training {
  Net model;
  optim::Adam optimizer{{.lr = 1e-2}};
  data::Loader<data::Samples> data{samples(), {.batch = 8, .seed = 2, .prefetch = 0}};
};
Training fresh(uint64_t seed = 3) {
  set_seed(seed);
  return {};
}

class Checkpoints : public ::testing::Test {
 protected:
  std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const fs::path name = entry.path().filename();
      if (name.extension() != ".json") out.insert(name.string());
    }
    return out;
  }
  nn::History train(Training& run, int64_t epochs, const io::CheckpointOptions& options,
                    std::vector<double> validation = {}) const {
    std::size_t epoch = 0;
    nn::FitOptions fit{
        .epochs = epochs,
        .prolong = true,
        .callbacks = {io::checkpoints(folder_, run.model, run.optimizer, run.data, options)}};
    if (!validation.empty()) {
      fit.validation = [&] {
        nn::Evaluation out;
        out.accuracy = validation.at(epoch);
        out.loss = 1 - validation.at(epoch++);
        return out;
      };
    }
    return nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, fit);
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path() / "run";  // the callback makes it
};

void expect_equal(const Net& a, const Net& b, const std::string& what) {
  EXPECT_TRUE(same_value(a.hidden.weight, b.hidden.weight)) << what;
  EXPECT_TRUE(same_value(a.output.weight, b.output.weight)) << what;
  EXPECT_TRUE(same_value(a.output.bias, b.output.bias)) << what;
}

// spec: F2
TEST_F(Checkpoints, SaysWhatTheRunHangsOn) {
  ::setenv("ETUDE_NOTE", "a flag", 1);
  Training run = fresh();
  train(run, 1, {});
  train(run, 2, {});
  ::unsetenv("ETUDE_NOTE");
  const auto text_of = [&](const char* name) {
    std::ifstream file(folder_ / name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string first = text_of("run-00000000.json"), second = text_of("run-00000005.json");
  for (const std::string& line :
       {std::string("  \"etude\": \"") + version() + "\"", std::string("\"compiler\": \""),
        "\"threads\": " + std::to_string(worker_count()), std::string("\"ETUDE_NOTE\": \"a flag\""),
        std::string("\"seed\": 3,"), std::string("\"updates\": 0"),
        std::string("\"etude.seed\": \"2\""), std::string("\"etude.samples\": \"40\"")}) {
    EXPECT_NE(first.find(line), std::string::npos) << line << " is not in " << first;
  }
  EXPECT_NE(second.find("\"updates\": 5"), std::string::npos) << second;
  // The same run writes the same record.
  fs::remove_all(folder_);
  ::setenv("ETUDE_NOTE", "a flag", 1);
  Training again = fresh();
  train(again, 1, {});
  ::unsetenv("ETUDE_NOTE");
  EXPECT_EQ(text_of("run-00000000.json"), first);
}

// spec: F2, K3.c
TEST_F(Checkpoints, KeepsTheNewestAndEachOneResumesBitForBit) {
  Training whole = fresh();
  train(whole, 3, {.every_steps = 4, .every_epochs = 0, .keep = 0});
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000004", "step-00000008", "step-00000012",
                                            "step-00000015"}));
  EXPECT_EQ(io::newest_checkpoint(folder_), folder_ / "step-00000015");
  for (const std::string& name : files()) {
    Training second = fresh(77);
    io::load_checkpoint(folder_ / name, second.model, second.optimizer, second.data);
    nn::fit(second.model, second.optimizer, second.data, nn::softmax_cross_entropy, {.epochs = 3});
    expect_equal(whole.model, second.model, name);
  }
  fs::remove_all(folder_);
  Training again = fresh();
  train(again, 3, {.every_steps = 4, .keep = 2});  // and after each epoch
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000012", "step-00000015"}));
}

// spec: F2
TEST_F(Checkpoints, KeepsTheBestEpochAlsoOverARestart) {
  const io::CheckpointOptions options{.best = io::Best::kValidationAccuracy};
  Training run = fresh();
  train(run, 3, options, {.5, .9, .7});
  EXPECT_EQ(files(), (std::set<std::string>{"best", "step-00000015"}));
  Training best = fresh(), two = fresh();
  io::load_checkpoint(folder_ / "best", best.model, best.optimizer, best.data);
  EXPECT_EQ(best.optimizer.updates(), 10);
  EXPECT_EQ(best.data.position(), (data::Position{2, 0}));
  set_seed(3);
  two = Training{};
  nn::fit(two.model, two.optimizer, two.data, nn::softmax_cross_entropy, {.epochs = 2});
  expect_equal(two.model, best.model, "best");

  Training second = fresh(5);
  io::load_checkpoint(*io::newest_checkpoint(folder_), second.model, second.optimizer, second.data);
  train(second, 5, options, {.8, .9});  // neither is better
  io::load_checkpoint(folder_ / "best", best.model, best.optimizer, best.data);
  EXPECT_EQ(best.optimizer.updates(), 10);
  train(second, 6, options, {.95});
  io::load_checkpoint(folder_ / "best", best.model, best.optimizer, best.data);
  EXPECT_EQ(best.optimizer.updates(), 30);
}

// spec: F2
TEST_F(Checkpoints, TheBestByLossIsTheLowest) {
  for (const io::Best by : {io::Best::kLoss, io::Best::kValidationLoss}) {
    fs::remove_all(folder_);
    Training run = fresh(), best = fresh();
    const nn::History history = train(run, 3, {.best = by}, {.2, .1, .3});
    std::size_t lowest = 0;
    for (std::size_t i = 1; i < 3; ++i) {
      const auto value = [&](std::size_t k) {
        const nn::EpochRecord& epoch = history.epochs[k];
        return by == io::Best::kLoss ? epoch.loss : epoch.validation_loss;
      };
      if (value(i) < value(lowest)) lowest = i;
    }
    io::load_checkpoint(folder_ / "best", best.model, best.optimizer, best.data);
    EXPECT_EQ(best.optimizer.updates(), static_cast<int64_t>(5 * (lowest + 1)));
  }
}

// spec: F2, F1.c
TEST_F(Checkpoints, ARunThatIsCalledOffIsSaved) {
  Training whole = fresh(), run = fresh();
  whole = fresh();
  nn::fit(whole.model, whole.optimizer, whole.data, nn::softmax_cross_entropy, {.epochs = 2});
  run = fresh();
  nn::FitOptions options{
      .epochs = 2,
      .callbacks = {[](nn::Event event, nn::FitState& state) {
                      if (event == nn::Event::kBatchEnd && state.step == 3) {
                        state.cancel = state.epoch == 0 ? nn::Cancel::kFit : nn::Cancel::kNothing;
                      }
                    },
                    io::checkpoints(folder_, run.model, run.optimizer, run.data)}};
  nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, options);
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000003"}));
  Training second = fresh(9);
  io::load_checkpoint(*io::newest_checkpoint(folder_), second.model, second.optimizer, second.data);
  nn::fit(second.model, second.optimizer, second.data, nn::softmax_cross_entropy, {.epochs = 2});
  expect_equal(whole.model, second.model, "resumed");
}

// An epoch that was cut short is over, also for a run that resumes from the file saved at its end.
// spec: F2, F1.c
TEST_F(Checkpoints, ACutEpochIsOver) {
  Training run = fresh();
  nn::FitOptions options{
      .epochs = 1,
      .callbacks = {[](nn::Event event, nn::FitState& state) {
                      if (event == nn::Event::kBatchEnd && state.step == 2) {
                        state.cancel = nn::Cancel::kPart;
                      }
                    },
                    io::checkpoints(folder_, run.model, run.optimizer, run.data)}};
  nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, options);
  Training second = fresh();
  io::load_checkpoint(*io::newest_checkpoint(folder_), second.model, second.optimizer, second.data);
  EXPECT_EQ(second.data.position(), (data::Position{1, 0}));
}

// Killed in place of any write, fsync or rename, the folder still has a whole newest file.
// spec: F2, K1.c
TEST_F(Checkpoints, AKillAtAnyWriteLeavesAGoodFile) {
  bool finished = false;
  for (int n = 1; !finished; ++n) {
    ASSERT_LT(n, 1000);
    fs::remove_all(folder_);
    Training run = fresh();
    const nn::Callback callback =
        io::checkpoints(folder_, run.model, run.optimizer, run.data, {.every_steps = 1});
    nn::FitState state;
    callback(nn::Event::kFitStart, state);
    run.optimizer.update(run.model, run.model);
    callback(nn::Event::kBatchEnd, state);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("ETUDE_TEST_KILL_AT_WRITE", std::to_string(n).c_str(), 1);
      for (int i = 0; i < 2; ++i) {
        run.optimizer.update(run.model, run.model);
        callback(nn::Event::kBatchEnd, state);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    finished = WEXITSTATUS(status) == 0;
    ASSERT_TRUE(finished || WEXITSTATUS(status) == 137) << WEXITSTATUS(status);
    Training found = fresh();
    io::load_checkpoint(*io::newest_checkpoint(folder_), found.model, found.optimizer, found.data);
    EXPECT_GE(found.optimizer.updates(), finished ? 3 : 1);
  }
}

// The same for a call that fails: an error, the older checkpoint stays, and the run goes on.
TEST_F(Checkpoints, AFailureAtAnyWriteLeavesAGoodFile) {
  bool finished = false;
  for (int n = 1; !finished; ++n) {
    ASSERT_LT(n, 1000);
    fs::remove_all(folder_);
    Training run = fresh();
    const nn::Callback callback =
        io::checkpoints(folder_, run.model, run.optimizer, run.data, {.every_steps = 1});
    nn::FitState state;
    callback(nn::Event::kFitStart, state);
    run.optimizer.update(run.model, run.model);
    callback(nn::Event::kBatchEnd, state);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("ETUDE_TEST_FAIL_AT_WRITE", std::to_string(n).c_str(), 1);
      int errors = 0;
      const auto save = [&] {
        run.optimizer.update(run.model, run.model);
        try {
          callback(nn::Event::kBatchEnd, state);
        } catch (const Error& error) {
          errors += error.code() == ErrorCode::kDataLoss ? 1 : 100;
        }
      };
      save();
      save();
      ::unsetenv("ETUDE_TEST_FAIL_AT_WRITE");
      Training found = fresh();
      const auto newest = io::newest_checkpoint(folder_);
      io::load_checkpoint(*newest, found.model, found.optimizer, found.data);
      if (found.optimizer.updates() < (errors == 0 ? 3 : 1) || errors > 1) ::_exit(1);
      save();
      io::load_checkpoint(*io::newest_checkpoint(folder_), found.model, found.optimizer,
                          found.data);
      ::_exit(found.optimizer.updates() != 4 ? 2 : errors == 0 ? 0 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3) << WEXITSTATUS(status);
    // A file that could not be removed is no error: such a call is not the last one.
    finished = WEXITSTATUS(status) == 0 && n > 30;
  }
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// No bit of a checkpoint may change unseen: before, a run resumed from most of them in silence.
// spec: K3.b
TEST_F(Checkpoints, EachChangedBitIsTold) {
  Training run = fresh(), found = fresh();
  io::save_checkpoint(temp_.path() / "run", run.model, run.optimizer, run.data);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(temp_.path() / "run")) {
    const std::string good = content(entry.path());
    for (std::size_t bit = files; bit < 8 * good.size(); bit += 13) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      std::ofstream(entry.path(), std::ios::binary) << bad;
      tests::expect_error(
          [&] {
            io::load_checkpoint(temp_.path() / "run", found.model, found.optimizer, found.data);
          },
          ErrorCode::kDataLoss, {entry.path().string() + ": offset "});
    }
    std::ofstream(entry.path(), std::ios::binary) << good;
    ++files;
  }
  EXPECT_EQ(files, 2);  // the manifest and one shard
  io::load_checkpoint(temp_.path() / "run", found.model, found.optimizer, found.data);
  expect_equal(run.model, found.model, "unchanged");
}

// fit writes the format of io::Checkpoint, which restores each part by its name.
// spec: F2
TEST_F(Checkpoints, AreTheFormatOfObjectGraphs) {
  Training run = fresh(), found = fresh(8);
  train(run, 1, {});
  io::Checkpoint parts{
      {"model", found.model}, {"optimizer", found.optimizer}, {"data", found.data}};
  parts.restore(*io::newest_checkpoint(folder_))
      .assert_existing_objects_matched()
      .expect_partial();  // also the generator and the settings are saved
  expect_equal(run.model, found.model, "by hand");
  EXPECT_EQ(found.optimizer.updates(), 5);
  EXPECT_EQ(found.data.position(), run.data.position());
}

// Files of earlier releases count as checkpoints of the folder, and are removed as such.
TEST_F(Checkpoints, FilesOfEarlierReleasesAreOlderOnes) {
  fs::create_directory(folder_);
  std::ofstream(folder_ / "step-00000002.safetensors") << "x";
  std::ofstream(folder_ / "step-2.note") << "x";
  EXPECT_EQ(io::newest_checkpoint(folder_), folder_ / "step-00000002.safetensors");
  Training run = fresh();
  run.optimizer.update(run.model, run.model);
  run.optimizer.update(run.model, run.model);
  train(run, 1, {.keep = 2});
  EXPECT_EQ(files(),
            (std::set<std::string>{"step-00000002.safetensors", "step-00000007", "step-2.note"}));
  train(run, 2, {.keep = 1});
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000012", "step-2.note"}));
}

// spec: F2
TEST_F(Checkpoints, TwoRunsDoNotShareAFolder) {
  Training one = fresh(), two = fresh();
  const nn::Callback first = io::checkpoints(folder_, one.model, one.optimizer, one.data);
  nn::FitState state;
  first(nn::Event::kFitStart, state);
  tests::expect_error([&] { train(two, 1, {}); }, ErrorCode::kFailedPrecondition,
                      {"process " + std::to_string(::getpid()) + " on ",
                       "saves a run into the folder '" + folder_.string() + "'",
                       "Take another folder, or end that process"});
  first(nn::Event::kFitEnd, state);
  train(two, 1, {});
  EXPECT_EQ(io::newest_checkpoint(folder_), folder_ / "step-00000005");
}

// spec: F2
TEST_F(Checkpoints, UnfinishedOnesAreRemovedByTheNextRun) {
  fs::create_directories(folder_ / "step-00000001");
  std::ofstream(folder_ / "step-00000001" / "shard-00001-00001-of-00002.safetensors") << "x";
  fs::create_directories(folder_ / "step-00000002");
  std::ofstream(folder_ / "step-00000002" / "notes.txt") << "x";  // not of a saver
  EXPECT_FALSE(io::newest_checkpoint(folder_).has_value());
  Training run = fresh();
  train(run, 1, {.keep = 0});
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000002", "step-00000005"}));
  EXPECT_EQ(content(folder_ / "step-00000002" / "notes.txt"), "x");
}

// spec: F2
TEST_F(Checkpoints, MistakesAreNamed) {
  Training run = fresh();
  EXPECT_NE(error_of(ErrorCode::kInvalidArgument, [&] { train(run, 1, {.keep = -1}); })
                .find("keep is -1"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorCode::kFailedPrecondition,
                     [&] { train(run, 1, {.best = io::Best::kValidationLoss}); })
                .find("fit has none"),
            std::string::npos);
  Training second = fresh();
  EXPECT_NE(error_of(ErrorCode::kFailedPrecondition, [&] { train(second, 1, {}); })
                .find("step-00000005 is further on than this run"),
            std::string::npos);
  EXPECT_FALSE(io::newest_checkpoint(folder_ / "none").has_value());
}

}  // namespace
}  // namespace etude::checkpoints_test
