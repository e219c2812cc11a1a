// SPDX-License-Identifier: Apache-2.0
// Restores that fail in the middle. Without memory: tests/failures.
#include "etude/io/internal/prepared_restore.h"

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/data/dataset_sources.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/io/checkpoint/object_checkpoint.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::io {
namespace {

using etude::internal::TempFolder;
using tests::expect_error;

// Two functions of the program and an object of each kind. The second function fails on request.
struct RestoredKinds {
  Variable weight = Variable(1.0F);
  Tensor bias = Tensor(1.0F);
  optim::Adam adam;
  data::Loader<Tensor> loader{Tensor(std::vector<float>{1, 2, 3, 4}), {.batch = 1}};
  data::DatasetIterator<int64_t> walk = data::count_up(5).iterate();
  int64_t number = 1;
  std::string text = "one";
  Generator generator{1};
  float first = 1, last = 1;
  int failures = 0;         // of the next calls
  std::vector<float> seen;  // the weight at each call
  Checkpoint checkpoint{{"weight", weight}, {"bias", bias},          {"adam", adam},
                        {"loader", loader}, {"walk", walk},          {"number", number},
                        {"text", text},     {"generator", generator}};

  RestoredKinds() {
    track("first", first);
    track("last", last);
  }
  void track(const std::string& name, float& x) {
    const auto save = [&x] { return NamedTensors{{"x", Tensor(x)}}; };
    checkpoint.track_state(name, save, [this, name, &x](NamedTensors values) {
      seen.push_back(weight.read().item<float>());
      if (name == "last" && failures-- > 0) throw std::runtime_error("it is broken");
      x = values.at("x").item<float>();
    });
  }
  void step() {
    weight.assign(2.0);
    bias = Tensor(2.0F);
    adam.scale_rate(0.5);
    loader.next();
    walk.next();
    number = 2;
    text = "two";
    generator.position = 2;
    first = last = 2;
  }
  std::string now() const {
    std::ostringstream out;
    out << weight.read().item<float>() << bias.item<float>() << adam.rate_scale()
        << loader.position().step << walk.position() << number << text << generator.position
        << first << last;
    return out.str();
  }
};

class PreparedRestore : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  const TempFolder folder_;
};

// spec: CK-12
TEST_F(PreparedRestore, RestoresAllObjectsOrNone) {
  RestoredKinds all;
  all.checkpoint.write(path("x"));
  const std::string saved = all.now();
  all.step();
  const std::string before = all.now();
  all.failures = 1;
  expect_error([&] { all.checkpoint.restore(path("x")); }, ErrorCode::kInvalidArgument,
               {"checkpoint '" + path("x") +
                    "': 'last' does not take its saved state; nothing was "
                    "restored: it is broken",
                "prepared_restore_test.cc"});
  EXPECT_EQ(all.now(), before);
  // Functions see restored objects, and the former ones when they undo.
  EXPECT_EQ(all.seen, (std::vector<float>{1, 1, 2, 2}));
  all.failures = 2;
  expect_error([&] { all.checkpoint.restore(path("x")); }, ErrorCode::kInvalidArgument,
               {"'last' does not take its saved state; only these may have theirs: 'last': it is "
                "broken"});
  EXPECT_EQ(all.now(), before);
  all.checkpoint.restore(path("x")).assert_consumed();
  EXPECT_EQ(all.now(), saved);
}

// spec: CK-03, CK-12
TEST_F(PreparedRestore, AttachesAnObjectWithItsValuesOrNot) {
  Variable weight(1.0F), other(3.0F);
  Checkpoint{{"weight", weight}, {"hook", other}}.write(path("x"));
  weight.assign(2.0);
  Checkpoint checkpoint;
  const RestoreStatus status = checkpoint.restore(path("x"));
  const auto fails = [](NamedTensors) { throw std::runtime_error("no"); };
  expect_error([&] { checkpoint.track_state("hook", nullptr, fails); }, ErrorCode::kInvalidArgument,
               {"Trackable::track: checkpoint '" + path("x") +
                "': 'hook' does not take its saved "
                "state; only these may have theirs: 'hook': no"});
  EXPECT_EQ(status.report().unused.size(), 2u);
  float hook = 0;
  checkpoint.track_state("hook", nullptr,
                         [&](NamedTensors values) { hook = values.at("").item<float>(); });
  checkpoint.track("weight", weight);
  EXPECT_EQ(hook, 3);
  EXPECT_EQ(weight.read().item<float>(), 1);
  status.assert_consumed();
}

// Data of the program, which can seek in one step only.
struct OwnData {
  data::Position at;
  bool is_broken = false;
  data::Position position() const { return at; }
  void seek(data::Position to) {
    at = to;
    if (is_broken && to.epoch == 1) throw std::runtime_error("no tape");
  }
};

// spec: F2
TEST_F(PreparedRestore, LoadsARunAsAWholeOrNot) {
  struct Model {
    Tensor a = Tensor(1.0F);
  };
  Model model;
  optim::Adam adam;
  OwnData data{{1, 2}};
  set_seed(1);
  save_checkpoint(path("run"), model, adam, data);
  model.a = Tensor(2.0F);
  adam.scale_rate(0.5);
  data = {{5, 6}, true};
  set_seed(2);
  const Generator generator = ambient().generator;
  expect_error([&] { load_checkpoint(path("run"), model, adam, data); },
               ErrorCode::kInvalidArgument,
               {"checkpoint '" + path("run") +
                "': 'data' does not take its saved state; nothing "
                "was restored: no tape"});
  EXPECT_EQ(model.a.item<float>(), 2);
  EXPECT_EQ(adam.rate_scale(), 0.5);
  EXPECT_EQ(data.at, (data::Position{5, 6}));
  EXPECT_EQ(ambient().generator, generator);
  data.is_broken = false;
  load_checkpoint(path("run"), model, adam, data);
  EXPECT_EQ(model.a.item<float>(), 1);
  EXPECT_EQ(adam.rate_scale(), 1);
  EXPECT_EQ(data.at, (data::Position{1, 2}));
  EXPECT_EQ(ambient().generator, Generator(1));
}

}  // namespace
}  // namespace etude::io
