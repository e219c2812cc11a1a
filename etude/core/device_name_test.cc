// SPDX-License-Identifier: Apache-2.0
#include "etude/core/device_name.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

void expect_refused(const char* name, const std::string& fact) {
  expect_error([&] { static_cast<void>(DeviceName::parse(name)); }, ErrorCode::kInvalidArgument,
               {"the device name '" + std::string(name) + "' " + fact,
                "Write it like \"cpu:0\", \"gpu:1\" or \"/job:worker/task:1/device:GPU:0\""});
}

// spec: RM-01
TEST(DeviceName, AWholeNameIsReadInAnyOrder) {
  const DeviceName name = DeviceName::parse("/job:training/task:2/device:GPU:0");
  EXPECT_EQ(name, DeviceName::parse("/device:GPU:0/task:2/job:training"));
  EXPECT_EQ(name, DeviceName::parse("/task:2/job:training/device:GPU:0"));
  EXPECT_EQ(name.job, "training");
  EXPECT_EQ(name.task, 2);
  EXPECT_EQ(name.type, "GPU");
  EXPECT_EQ(name.index, 0);
  // The replica is 0 unless another is given.
  EXPECT_EQ(name.to_string(), "/job:training/replica:0/task:2/device:GPU:0");
  EXPECT_EQ(DeviceName::parse("/job:a/replica:3/task:2/device:CPU:1").to_string(),
            "/job:a/replica:3/task:2/device:CPU:1");
  EXPECT_TRUE(name.fits(DeviceName::parse("/job:training/replica:0/task:2/device:GPU:0")));
}

// spec: RM-02
TEST(DeviceName, ShortNamesAndWildcards) {
  EXPECT_EQ(DeviceName::parse("gpu:0"), DeviceName::parse("device:GPU:0"));
  EXPECT_EQ(DeviceName::parse("gpu:0"), DeviceName::parse("/device:gpu:0"));
  EXPECT_EQ(DeviceName::parse("cuda:1"), DeviceName::parse("gpu:1"));
  EXPECT_EQ(DeviceName::parse("CPU:10").index, 10);
  EXPECT_FALSE(DeviceName::parse("CPU").index);
  EXPECT_EQ(DeviceName::parse("CPU:*"), DeviceName::parse("CPU"));
  EXPECT_TRUE(DeviceName::parse("").is_empty());
  EXPECT_TRUE(DeviceName::parse("/job:*/task:*/device:*:*").is_empty());

  const DeviceName full = DeviceName::parse("/job:w/replica:0/task:1/device:CPU:3");
  EXPECT_TRUE(DeviceName::parse("cpu").fits(full));
  EXPECT_TRUE(DeviceName::parse("/job:w").fits(full));
  EXPECT_TRUE(DeviceName::parse("device:*:3").fits(full));
  EXPECT_TRUE(DeviceName::parse("").fits(full));
  EXPECT_FALSE(DeviceName::parse("cpu:30").fits(full));
  EXPECT_FALSE(DeviceName::parse("gpu").fits(full));
  EXPECT_FALSE(DeviceName::parse("/job:v").fits(full));
  EXPECT_FALSE(DeviceName::parse("/task:2").fits(full));
  EXPECT_FALSE(DeviceName::parse("/replica:1").fits(full));
}

// spec: RM-03
TEST(DeviceName, AMalformedNameSaysWhy) {
  expect_refused("chip:0", "has the unknown word 'chip'");
  expect_refused("/host:a/cpu:0", "has the unknown word 'host'");
  expect_refused("/job:1st/cpu:0", "has the job '1st', but a job starts with a letter");
  expect_refused("/job:a-b", "has the job 'a-b', but a job has letters, digits and '_' only");
  expect_refused("gpu:-1", "has the index -1, but numbers are 0 or more");
  expect_refused("/task:-2", "has the task -2, but numbers are 0 or more");
  expect_refused("gpu:", "has no value after 'gpu:'");
  expect_refused("/job:", "has no value after 'job:'");
  expect_refused("/job", "has no value after 'job:'");
  expect_refused("/task", "has no value after 'task:'");
  expect_refused("device:", "has no value after 'device:'");
  expect_refused("gpu:0x", "has further text 'x' after the index 0");
  expect_refused("cpu:0:1", "has further text ':1' after the index 0");
  expect_refused("gpu:one", "has 'one' as its index, which is no number");
  expect_refused("gpu:70000", "has the index 70000, but numbers are at most 65535");
  expect_refused("gpu:99999999999999999999",
                 "has the index 99999999999999999999, but numbers are at most 65535");
  expect_refused("/job:a/job:b", "has two parts 'job'");
  expect_refused("/task:1/task:1", "has two parts 'task'");
  expect_refused("/cpu:0/device:GPU:1", "has two parts 'device'");
  expect_refused("/job:a//cpu:0", "has a part without a word ('')");
  expect_refused("/", "has a part without a word ('')");
  expect_refused("cpu:0/task:1", "has further text '/task:1' after the index 0");
}

// spec: RM-04
TEST(DeviceName, MergingJoinsPartsAndRefinesWildcards) {
  const DeviceName job = DeviceName::parse("/job:w/task:1");
  EXPECT_EQ(job.merged_strictly(DeviceName::parse("gpu:2")).to_string(),
            "/job:w/replica:0/task:1/device:GPU:2");
  EXPECT_EQ(DeviceName::parse("gpu:*").merged_strictly(DeviceName::parse("gpu:2")),
            DeviceName::parse("gpu:2"));
  EXPECT_EQ(DeviceName::parse("gpu:2").merged_strictly(DeviceName::parse("gpu:*")),
            DeviceName::parse("gpu:2"));
  EXPECT_EQ(job.merged_strictly(job), job);
}

// spec: RM-04
TEST(DeviceName, AConflictIsRefusedOrDropsTheOuterPart) {
  const DeviceName outer = DeviceName::parse("/job:a/task:1/device:GPU:2");
  const auto refused = [&](const char* inner, const char* fact) {
    expect_error([&] { static_cast<void>(outer.merged_strictly(DeviceName::parse(inner))); },
                 ErrorCode::kInvalidArgument,
                 {fact, "Leave the part out of one name, or write the same value"});
  };
  refused("/job:b", "the job is 'a' in one name and 'b' in the other");
  refused("/task:2", "the task is '1' in one name and '2' in the other");
  refused("cpu", "the type is 'GPU' in one name and 'CPU' in the other");
  refused("gpu:3", "the index is '2' in one name and '3' in the other");
  expect_error(
      [] {
        static_cast<void>(
            DeviceName::parse("/replica:1").merged_strictly(DeviceName::parse("/replica:2")));
      },
      ErrorCode::kInvalidArgument, {"the replica is '1' in one name and '2' in the other"});

  EXPECT_EQ(outer.merged(DeviceName::parse("gpu:3")).to_string(),
            "/job:a/replica:0/task:1/device:GPU:3");
  // The index belongs to the type, and the task to the job.
  EXPECT_EQ(outer.merged(DeviceName::parse("cpu")).to_string(),
            "/job:a/replica:0/task:1/device:CPU:*");
  EXPECT_EQ(outer.merged(DeviceName::parse("/job:b")).to_string(), "/job:b/device:GPU:2");
}

}  // namespace
}  // namespace etude
