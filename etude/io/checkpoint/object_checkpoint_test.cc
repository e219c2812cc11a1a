// SPDX-License-Identifier: Apache-2.0
// Checkpoints of object graphs: names, deferral, reports. Their files: object_files_test.cc.
#include "etude/io/checkpoint/object_checkpoint.h"

#include <cstdlib>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/base/warning.h"
#include "etude/core/context/ambient.h"
#include "etude/data/dataset_sources.h"
#include "etude/nn/layers/layers.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

namespace etude::io {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using tests::expect_error;

struct Dep : Trackable {};
struct Net : Trackable {
  Variable v = track("v", Variable(1.0));
  std::shared_ptr<nn::Dense> out = track("out", std::make_shared<nn::Dense>(2, 1));
};

float value(const Variable& v) { return v.read().item<float>(); }

class ObjectCheckpoint : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // A checkpoint of {"root": {"dep": {"v": number}}}.
  std::string saved_dep(double number, const std::string& name) const {
    Dep root;
    const auto dep = root.track("dep", std::make_shared<Dep>());
    dep->track("v", Variable(number));
    Checkpoint{{"root", root}}.write(path(name));
    return path(name);
  }
  const TempFolder folder_;
};

// spec: CK-01, CK-02.a, CK-14.a
TEST_F(ObjectCheckpoint, SavesByNamesOfEdges) {
  set_seed(1);
  Net first;
  first.v.assign(7.0);
  Checkpoint checkpoint{{"net", first}};
  EXPECT_EQ(checkpoint.save(path("model")), path("model-1"));
  EXPECT_EQ(checkpoint.save(path("model")), path("model-2"));
  EXPECT_EQ(latest_checkpoint(folder_.path()), path("model-2"));
  checkpoint.write(path("aside"));
  EXPECT_EQ(latest_checkpoint(folder_.path()), path("model-2"));
  EXPECT_EQ(checkpoint.save_counter(), 2);
  const auto file = load_safetensors(path("aside/shard-00001-00001-of-00001.safetensors"));
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : file.tensors) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"net/out/bias", "net/out/weight", "net/v"}));

  const Variable other(3.0, {.name = "another"});
  Net second;
  Checkpoint again{{"net", second}};
  again.restore(path("model-2")).assert_consumed();
  EXPECT_EQ(value(second.v), 7);
  EXPECT_TRUE(same_value(second.out->weight, first.out->weight));
  EXPECT_EQ(again.save(path("model")), path("model-3"));  // the counter was saved
}

// spec: CK-02.b
TEST_F(ObjectCheckpoint, NamesAreEscaped) {
  Dep root;
  const auto dep = root.track("a", std::make_shared<Dep>());
  dep->track("b", Variable(1.0));
  root.track("a/b", Variable(2.0));
  root.track("a%2Fb", Variable(3.0));
  root.track("a.b", Variable(4.0));
  Checkpoint checkpoint{{"root", root}};
  checkpoint.write(path("x"));
  Dep other;
  const Variable v4 = other.track("a.b", Variable(0.0)), v3 = other.track("a%2Fb", Variable(0.0)),
                 v2 = other.track("a/b", Variable(0.0));
  const auto dep2 = other.track("a", std::make_shared<Dep>());
  const Variable v1 = dep2->track("b", Variable(0.0));
  Checkpoint{{"root", other}}.restore(path("x")).assert_consumed();
  EXPECT_EQ(value(v1), 1);
  EXPECT_EQ(value(v2), 2);
  EXPECT_EQ(value(v3), 3);
  EXPECT_EQ(value(v4), 4);
}

// spec: CK-03, CK-04.a, SC-04.c
TEST_F(ObjectCheckpoint, WhatIsAttachedLaterTakesItsValueThen) {
  const std::string file = saved_dep(123, "x");
  Dep root;
  Checkpoint checkpoint{{"root", root}};
  const RestoreStatus status = checkpoint.restore(file);
  expect_error([&] { status.assert_consumed(); }, ErrorCode::kFailedPrecondition,
               {"0 restored, 1 unused", "root/dep/v"});
  const auto dep = std::make_shared<Dep>();
  bool ran = false;
  const Variable before = dep->track("v", Variable([&] {
                                       ran = true;
                                       return Tensor(0.0);
                                     }));
  root.track("dep", dep);
  EXPECT_EQ(value(before), 123);
  EXPECT_FALSE(ran);  // the initialiser is not needed
  status.assert_consumed();

  Dep second;
  Checkpoint later{{"root", second}};
  later.restore(file);
  const auto dep2 = second.track("dep", std::make_shared<Dep>());
  Variable v(5.0);
  v.assign(6.0);
  dep2->track("v", v);
  EXPECT_EQ(value(v), 123);  // the assigned value is overwritten
  v.assign(7.0);
  Dep third;
  third.track("other", v);
  EXPECT_EQ(value(v), 7);
}

// spec: CK-04.b
TEST_F(ObjectCheckpoint, AnObjectOnTwoPathsIsRestoredOnce) {
  Dep root;
  const Variable shared(1.0);
  root.track("a", shared);
  root.track("b", shared);
  Checkpoint{{"root", root}}.write(path("x"));
  Dep other;
  const Variable again(0.0);
  Checkpoint checkpoint{{"root", other}};
  const RestoreStatus status = checkpoint.restore(path("x"));
  other.track("a", again);
  EXPECT_EQ(value(again), 1);
  again.assign(5.0);
  other.track("b", again);
  EXPECT_EQ(value(again), 5);
  status.assert_consumed();
}

// spec: CK-05
TEST_F(ObjectCheckpoint, OfTwoRestoresTheOneCalledLastWins) {
  const std::string twelve = saved_dep(12, "a"), thirteen = saved_dep(13, "b");
  for (const bool second_first : {false, true}) {
    for (const bool attach_late : {false, true}) {
      Dep one, two;
      Checkpoint first{{"root", one}}, second{{"root", two}};
      first.restore(twelve).expect_partial();
      second.restore(thirteen).expect_partial();
      const auto dep = std::make_shared<Dep>();
      const Variable v(0.0);
      if (!attach_late) dep->track("v", v);
      (second_first ? two : one).track("dep", dep);
      (second_first ? one : two).track("dep", dep);
      if (attach_late) dep->track("v", v);
      EXPECT_EQ(value(v), 13) << second_first << attach_late;
    }
  }
}

// spec: CK-06, CK-16
TEST_F(ObjectCheckpoint, StatusesTellWhatIsLeft) {
  Tensor a(1.0), b(2.0);
  Checkpoint{{"a", a}, {"b", b}}.write(path("x"));
  Tensor live(0.0), c(9.0);
  Checkpoint checkpoint{{"a", live}, {"c", c}};
  {
    const tests::Warnings warnings;
    {
      const RestoreStatus status = checkpoint.restore(path("x"));
      EXPECT_EQ(live.item<float>(), 1);
      EXPECT_EQ(c.item<float>(), 9);
      status.assert_nontrivial_match();
      expect_error([&] { status.assert_consumed(); }, ErrorCode::kFailedPrecondition,
                   {"assert_consumed", "1 restored, 1 unused, 1 without a value", "unused:\n    b",
                    "without a value:\n    c", "expect_partial()"});
      expect_error([&] { status.assert_existing_objects_matched(); },
                   ErrorCode::kFailedPrecondition, {"without a value:\n    c"});
      EXPECT_EQ(status.report().unused, (std::vector<std::string>{"b"}));
      EXPECT_TRUE(warnings.told.empty());
    }
    checkpoint.restore(path("x")).expect_partial();  // the restore before is dropped here
    ASSERT_EQ(warnings.told.size(), 1u);
    EXPECT_NE(warnings.told[0].find("1 of its values were not used, first 'b'"), std::string::npos);
  }
  Checkpoint strangers{{"z", c}};
  expect_error([&] { strangers.restore(path("x")).expect_partial().assert_nontrivial_match(); },
               ErrorCode::kFailedPrecondition, {"nothing was restored"});
}

// spec: CK-07.b..d
TEST_F(ObjectCheckpoint, CirclesAndOneObjectThatBecameTwo) {
  struct Ring : Trackable {
    Variable v = track("v", Variable(4.0));
  };
  {
    Ring root, next;
    root.track_member("next", next);
    next.track_member("back", root);
    Checkpoint{{"root", root}}.write(path("ring"));
    root.v.assign(0.0);
    next.v.assign(0.0);
    Checkpoint checkpoint{{"root", root}};
    checkpoint.restore(path("ring")).assert_consumed();
    EXPECT_EQ(value(root.v) + value(next.v), 8);
  }
  Dep root;
  const Variable shared(1.0);
  root.track("a", shared);
  root.track("b", shared);
  Checkpoint{{"root", root}}.write(path("one"));
  Dep two;
  const Variable a = two.track("a", Variable(0.0)), b = two.track("b", Variable(0.0));
  const tests::Warnings warnings;
  Checkpoint checkpoint{{"root", two}};
  const RestoreStatus status = checkpoint.restore(path("one"));
  EXPECT_EQ(value(a), 1);
  EXPECT_EQ(value(b), 0);
  ASSERT_EQ(warnings.told.size(), 1u);
  EXPECT_NE(warnings.told[0].find("'root/a' belongs to two objects now"), std::string::npos);
  expect_error([&] { status.assert_consumed(); }, ErrorCode::kFailedPrecondition, {"1 doubled"});
  // Two saved objects on one live one.
  Checkpoint{{"root", two}}.write(path("two"));
  status.expect_partial();
  Checkpoint{{"root", root}}.restore(path("two")).assert_consumed();
}

// spec: CK-07.a
TEST_F(ObjectCheckpoint, TheShortestPathIsMatchedFirst) {
  const auto net = [](Dep& root, const Variable& deep, const Variable& near) {
    root.track("first", std::make_shared<Dep>())->track("v", deep);
    root.track("second", near);
  };
  Dep root, two;
  const Variable shared(1.0), deep(0.0), near(0.0);
  net(root, shared, shared);
  net(two, deep, near);
  Checkpoint{{"root", root}}.write(path("one"));
  const tests::Warnings warnings;
  Checkpoint checkpoint{{"root", two}};
  checkpoint.restore(path("one")).expect_partial();
  EXPECT_EQ(value(near), 1);  // at root/second; a search in depth would find root/first/v before it
  EXPECT_EQ(value(deep), 0);
  ASSERT_EQ(warnings.told.size(), 1u);
}

// spec: CK-09.c
TEST_F(ObjectCheckpoint, PlainFieldsAndEmptyContainersAreIgnored) {
  struct Net {
    int64_t steps = 1;
    std::string name = "one";
    std::vector<Tensor> none;
    std::map<std::string, Variable> empty;
    Tensor weight = 3.0;
  };
  Net one, two{.steps = 2, .name = "two", .weight = 0.0};
  Checkpoint{{"net", one}}.write(path("x"));
  Checkpoint{{"net", two}}.restore(path("x")).assert_consumed();
  EXPECT_EQ(two.weight.item<float>(), 3);
  EXPECT_EQ(two.steps, 2);
  EXPECT_EQ(two.name, "two");
}

// spec: CK-08
TEST_F(ObjectCheckpoint, ValuesOfAnotherTypeRestoreNothing) {
  Tensor a(1.0), b({1.0, 2.0}), c(3.0);
  Checkpoint{{"a", a}, {"b", b}, {"c", c}}.write(path("x"));
  Tensor a2(9.0), b2({9.0, 9.0, 9.0});
  const Variable c2(Tensor(9));
  Dep dep;
  dep.track("c", c2);
  Checkpoint checkpoint{{"a", a2}, {"b", b2}};
  checkpoint.track("c", c2);
  expect_error([&] { checkpoint.restore(path("x")); }, ErrorCode::kInvalidArgument,
               {"nothing was restored", "b: float32[3] here, float32[2] in the checkpoint",
                "c: int32[] here, float32"});
  EXPECT_EQ(a2.item<float>(), 9);
  Checkpoint late;
  late.restore(path("x")).expect_partial();
  expect_error([&] { late.track("c", c2); }, ErrorCode::kInvalidArgument, {"c: int32[] here"});
  expect_error([&] { late.untrack("c"); }, ErrorCode::kNotFound, {"there is no object 'c'"});
}

// spec: CK-09.a, CK-10.a, CK-10.c
TEST_F(ObjectCheckpoint, EdgesAreReplacedAndDropped) {
  std::vector<Variable> list{Variable(1.0), Variable(2.0)};
  Checkpoint{{"list", list}}.write(path("list"));
  list = {Variable(0.0), Variable(0.0), Variable(5.0)};
  Checkpoint lists{{"list", list}};
  lists.restore(path("list")).expect_partial();
  EXPECT_EQ(value(list[0]) + value(list[1]), 3);
  EXPECT_EQ(value(list[2]), 5);

  const std::string file = saved_dep(123, "x");
  Dep root;
  const auto old = root.track("dep", std::make_shared<Dep>());
  const Variable old_v = old->track("v", Variable(0.0));
  Checkpoint checkpoint{{"root", root}};
  const RestoreStatus status = checkpoint.restore(file);
  EXPECT_EQ(value(old_v), 123);
  old_v.assign(1.0);
  const auto next = std::make_shared<Dep>();
  const Variable next_v = next->track("v", Variable(0.0));
  root.replace("dep", next);
  EXPECT_EQ(value(next_v), 123);
  EXPECT_EQ(value(old_v), 1);
  status.assert_consumed();
  expect_error([&] { root.track("dep", next); }, ErrorCode::kInvalidArgument,
               {"Trackable::track: there is an object 'dep' already", "object_checkpoint_test.cc"});
  root.untrack("dep");
  checkpoint.write(path("y"));
  expect_error([&] { checkpoint.restore(path("y")).assert_nontrivial_match(); },
               ErrorCode::kFailedPrecondition, {"0 restored"});
  Tensor a(1.0);
  expect_error(
      [&] {
        Checkpoint twice({{"a", a}, {"a", a}});
      },
      ErrorCode::kInvalidArgument, {"there is an object 'a' already"});
}

struct Mixed {
  struct Part {
    Tensor x = 1.0;
    Variable v = Variable(2.0);
  };
  Part a, b;
  std::map<std::string, Tensor> named;
};

// spec: CK-01, K1.a
TEST_F(ObjectCheckpoint, StructsOfTensorsAndVariablesAreOneTree) {
  Mixed one, two;
  one.a.x = Tensor(5.0);
  one.b.v.assign(6.0);
  one.named = {{"k", Tensor(7.0)}};
  two.named = {{"k", Tensor(0.0)}};
  Checkpoint{{"m", one}}.write(path("x"));
  Checkpoint{{"m", two}}.restore(path("x")).assert_consumed();
  EXPECT_EQ(two.a.x.item<float>() + value(two.b.v) + two.named["k"].item<float>(), 18);
  one.named["k/x"] = Tensor(1.0);
  Checkpoint unclear{{"m", one}};
  expect_error([&] { unclear.write(path("y")); }, ErrorCode::kInvalidArgument,
               {"a value and an entry of a map are both called 'named/k'"});
}

struct Line {
  Tensor weight{{0.5, -1.0}};
};
float step(Line& line, optim::Adam& adam) {
  const auto loss = [](const Line& l) { return sum(square(l.weight - Tensor({3.0, 1.0}))); };
  const auto [now, slope] = value_with_gradient(loss, line);
  adam.update(line, slope);
  return now.template item<float>();
}

// spec: CK-11.a, CK-12, K3.c
TEST_F(ObjectCheckpoint, OptimisersAndHostStateComeBack) {
  Line line;
  optim::Adam adam({.lr = 0.1});
  int64_t epoch = 3;
  double best = 0.25;
  bool done = true;
  std::string name = "run é";
  Generator generator(5);
  generator.next_key();
  int hook = 41;
  step(line, adam);
  Checkpoint checkpoint{{"line", line}, {"adam", adam}, {"epoch", epoch},        {"best", best},
                        {"done", done}, {"name", name}, {"generator", generator}};
  checkpoint.track_state(
      "hook",
      [&] {
        return NamedTensors{{"x", Tensor(hook)}};
      },
      [&](NamedTensors values) { hook = values.at("x").item<int>() + 1; });
  checkpoint.write(path("x"));
  const Generator saved = generator;
  const float expected = (step(line, adam), step(line, adam));

  Line line2;
  optim::Adam adam2({.lr = 0.1});  // has no slots yet
  epoch = 0;
  best = 0;
  done = false;
  name = "";
  generator = Generator(0);
  Checkpoint again{{"line", line2}, {"adam", adam2}, {"epoch", epoch},        {"best", best},
                   {"done", done},  {"name", name},  {"generator", generator}};
  const RestoreStatus status = again.restore(path("x"));
  expect_error([&] { status.assert_consumed(); }, ErrorCode::kFailedPrecondition,
               {"unused:\n    hook"});
  again.track_state("hook", nullptr,
                    [&](NamedTensors values) { hook = values.at("x").item<int>() + 1; });
  status.assert_consumed();
  EXPECT_EQ(hook, 42);
  EXPECT_EQ((step(line2, adam2), step(line2, adam2)), expected);
  EXPECT_EQ(epoch, 3);
  EXPECT_EQ(best, 0.25);
  EXPECT_TRUE(done);
  EXPECT_EQ(name, "run é");
  EXPECT_EQ(generator, saved);
  auto walk = data::count_up(3).iterate();
  Checkpoint bad{{"epoch", walk}};
  expect_error(
      [&] { bad.restore(path("x")); }, ErrorCode::kInvalidArgument,
      {"'epoch' does not take its saved state; nothing was restored: the saved state is no "
       "position of this kind"});
}

// spec: CK-13.a
TEST_F(ObjectCheckpoint, IteratorsGoOnWhereTheyWere) {
  std::vector<float> squares;
  for (int i = 1; i <= 6; ++i) squares.push_back(static_cast<float>(i * i));
  const auto data = data::from_tensors(Tensor(squares)).batch(2);
  auto one = data.iterate(), two = data.iterate();
  const auto read = [](auto& walk) { return walk.next()->template to_vector<int>(); };
  EXPECT_EQ(read(one), (std::vector<int>{1, 4}));
  Checkpoint checkpoint{{"one", one}, {"two", two}};
  checkpoint.write(path("x"));
  EXPECT_EQ(read(one), (std::vector<int>{9, 16}));
  EXPECT_EQ(read(one), (std::vector<int>{25, 36}));
  EXPECT_FALSE(one.next().has_value());
  checkpoint.write(path("end"));
  checkpoint.restore(path("x")).assert_consumed();
  EXPECT_EQ(read(one), (std::vector<int>{9, 16}));
  EXPECT_EQ(read(two), (std::vector<int>{1, 4}));
  checkpoint.restore(path("end")).assert_consumed();
  EXPECT_FALSE(one.next().has_value());

  auto other = data::from_tensors(Tensor(squares)).batch(3).iterate();
  Checkpoint changed{{"one", other}};
  expect_error([&] { changed.restore(path("x")); }, ErrorCode::kInvalidArgument,
               {"the position is one in 'tensors(6) | batch(2)', but the data is 'tensors(6) | "
                "batch(3)' now"});

  data::Loader epochs(Tensor(squares), {.batch = 2, .seed = 1});
  data::DatasetLoader shuffled(data::from_tensors(Tensor(squares)).shuffle(6, 1).batch(2));
  for (int i = 0; i < 4; ++i) epochs.next(), shuffled.next();
  Checkpoint both{{"epochs", epochs}, {"shuffled", shuffled}};
  both.write(path("y"));
  const auto a = epochs.next().to_vector<int>(), b = shuffled.next().to_vector<int>();
  both.restore(path("y")).assert_consumed();
  EXPECT_EQ(epochs.next().to_vector<int>(), a);
  EXPECT_EQ(shuffled.next().to_vector<int>(), b);
}

// spec: CK-14.b, CK-15
TEST_F(ObjectCheckpoint, ManagersKeepTheNewest) {
  Tensor x(0.0);
  Checkpoint checkpoint{{"x", x}};
  CheckpointManager manager(checkpoint, path("run"), {.max_to_keep = 2, .prefix = "m"});
  EXPECT_EQ(manager.latest(), "");
  const RestoreStatus nothing = checkpoint.restore(manager.latest());
  expect_error([&] { nothing.assert_consumed(); }, ErrorCode::kFailedPrecondition,
               {"there was no checkpoint"});
  expect_error([&] { nothing.assert_existing_objects_matched(); }, ErrorCode::kFailedPrecondition,
               {});
  for (int i = 1; i <= 4; ++i) {
    x = Tensor(static_cast<float>(i));
    EXPECT_EQ(manager.save(), path("run/m-" + std::to_string(i)));
  }
  EXPECT_EQ(manager.checkpoints(), (std::vector<std::string>{path("run/m-3"), path("run/m-4")}));
  EXPECT_EQ(manager.latest(), path("run/m-4"));
  Checkpoint fresh{{"x", x}};
  EXPECT_EQ(CheckpointManager(fresh, path("run"), {.prefix = "m"}).save(), path("run/m-5"));
  expect_error([&] { checkpoint.restore(path("none")); }, ErrorCode::kNotFound,
               {"there is no checkpoint '" + path("none") + "'", "object_checkpoint_test.cc"});
  std::ofstream(path("file")) << "x";
  for (const char* blocked : {"file", "file/x"}) {
    expect_error([&] { checkpoint.write(path(blocked)); }, ErrorCode::kFailedPrecondition,
                 {"checkpoint '" + path(blocked) + "': the folder cannot be made: "});
  }
  expect_error([&] { CheckpointManager bad(checkpoint, "x", {.max_to_keep = -1}); },
               ErrorCode::kInvalidArgument, {"max_to_keep is -1"});
  expect_error([&] { checkpoint.save(path("x"), {.shard_bytes = 0}); }, ErrorCode::kInvalidArgument,
               {"shard_bytes is 0"});
}

// spec: CK-18.a, CK-18.b
TEST_F(ObjectCheckpoint, PendingRestoresHoldNothingAlive) {
  std::weak_ptr<internal::TrackableCore> root, held;
  std::optional<RestoreStatus> status;
  {
    Dep one;
    const std::string file = saved_dep(1, "x");
    Checkpoint checkpoint{{"root", one}};
    status = checkpoint.restore(file);
    status->expect_partial();
    const auto dep = one.track("dep", std::make_shared<Dep>());
    held = dep->core();
    root = checkpoint.core();
    int64_t after_first = 0;
    for (int i = 0; i < 5; ++i) {
      checkpoint.write(path("y"));
      checkpoint.restore(path("y")).expect_partial();
      if (i == 0) after_first = memory_stats().live_tensors;
    }
    EXPECT_EQ(memory_stats().live_tensors, after_first);
  }
  EXPECT_TRUE(root.expired());
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(status->report().unmatched.size(), 0u);
}

}  // namespace
}  // namespace etude::io
