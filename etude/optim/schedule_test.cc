// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/kernels/cpu/optimizer/schedules.h"

namespace etude::optim::schedule_test {
namespace {

struct Row {
  const char* name;
  Schedule schedule;
  std::vector<std::pair<int64_t, double>> values;
};

// spec: LR1, LR2, LR3, LR4, LR5, LR6, LR7, LR8, LR9, LR10
TEST(Schedule, CheckValues) {
  const std::vector<Row> rows = {
      {"LR1 constant", constant(.1), {{0, .1}, {1000, .1}}},
      {"LR1 piecewise",
       piecewise({2, 5}, {.1, .05, .01}),
       {{0, .1}, {1, .1}, {2, .05}, {4, .05}, {5, .01}}},
      {"LR2", step(.1, .5, 3), {{0, .1}, {2, .1}, {3, .05}, {6, .025}}},
      {"LR3", exponential(.1, .9), {{0, .1}, {10, .0348678}}},
      {"LR4", inverse_time(.1, .1), {{0, .1}, {10, .05}}},
      {"LR5", polynomial(.1, .01, 2, 10), {{0, .1}, {5, .0325}, {10, .01}, {20, .01}}},
      {"LR6", cosine(.1, 10), {{0, .1}, {2, .0904508}, {5, .05}, {10, 0}, {25, 0}}},
      {"LR7", cosine_restarts(.1, 4, 2), {{0, .1}, {3, .0146447}, {4, .1}, {8, .05}, {12, .1}}},
      {"LR7 equal", cosine_restarts(.1, 4), {{4, .1}, {6, .05}, {8, .1}}},
      {"LR8", linear_warmup(.1, 4), {{0, .025}, {2, .075}, {3, .1}, {9, .1}}},
      {"LR9",
       one_cycle(.1, 10),
       {{0, .004}, {1, .052}, {2, .1}, {5, .0611262}, {9, 4e-7}, {12, 4e-7}}},
      {"LR10", inverse_sqrt(.1, 4), {{0, .025}, {3, .1}, {15, .05}}},
      {"chain", chain({constant(.1), step(1, .5, 3)}), {{0, .1}, {3, .05}}},
      {"join", join({constant(.1), exponential(.2, .5)}, {3}), {{2, .1}, {3, .2}, {4, .1}}},
      {"warmup", warmup(4, cosine(.1, 10)), {{0, .025}, {3, .1}, {4, .1}, {9, .05}, {14, 0}}},
  };
  for (const Row& row : rows) {
    for (const auto& [update, value] : row.values) {
      EXPECT_NEAR(row.schedule(update), value, 5e-8) << row.name << " at " << update;
    }
  }
}

// spec: LR12
TEST(Schedule, SegmentsByShape) {
  const Schedule parts = segments({{"constant", .1, 0, 2},
                                   {"linear", .1, .3, 4},
                                   {"cosine", .3, .1, 10},
                                   {"exponential", .1, .001, 2}});
  const std::vector<std::pair<int64_t, double>> values = {
      {0, .1},  {1, .1},  {2, .1},   {4, .2},    {6, .3},
      {11, .2}, {16, .1}, {17, .01}, {18, .001}, {99, .001}};
  for (const auto& [update, value] : values) EXPECT_NEAR(parts(update), value, 1e-12) << update;
  EXPECT_EQ(segments({{"constant", .5, 0, 1}})(7), .5);
  const auto message = [](const std::vector<Segment>& given) -> std::string {
    try {
      segments(given);
    } catch (const Error& error) {
      EXPECT_STREQ(error.where().file, __FILE__);
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({{"round", 1, 2, 3}}).find("segments: a shape is \"round\", but must be"),
            std::string::npos);
  EXPECT_NE(message({{"exponential", 1, 0, 3}}).find("goes from 1 to 0, but both must be above 0"),
            std::string::npos);
  EXPECT_NE(message({{"linear", 1, 0, 0}}).find("0 updates are asked for"), std::string::npos);
  EXPECT_NE(message({}).find("there are no segments"), std::string::npos);
}

TEST(Schedule, NumbersAndFunctionsAreSchedules) {
  const Schedule number = 3, function = [](int64_t t) { return 0.5 * static_cast<double>(t); };
  EXPECT_EQ(number(7), 3.0);
  EXPECT_EQ(function(7), 3.5);
}

// To the last bit.
TEST(Schedule, FormulasAreThoseOfNumbers) {
  const Schedule falls = exponential(.1, .93), bends = polynomial(.1, .01, 1.7, 40);
  const Schedule wave = cosine(.3, 70, .02);
  for (int64_t t = 0; t < 80; ++t) {
    const auto at = static_cast<double>(t);
    EXPECT_EQ(falls(t), .1 * std::pow(.93, at));
    EXPECT_EQ(bends(t), (.1 - .01) * std::pow(1 - std::min(at / 40, 1.0), 1.7) + .01);
    const double half = 1 + std::cos(std::numbers::pi * (at / 70));
    EXPECT_EQ(wave(t), t >= 70 ? .02 : .02 + (.3 - .02) * 0.5 * half);
  }
}

TEST(Schedule, ListsMustFit) {
  const auto message = [](auto make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message([] {
              piecewise({1, 2}, {.1, .2});
            }).find("2 bounds separate 3 parts, but 2"),
            std::string::npos);
  EXPECT_NE(message([] { join({.1, .2, .3}, {5, 2}); }).find("do not rise"), std::string::npos);
  EXPECT_NE(message([] { cosine(.1, 0); }).find("cosine: 0 updates"), std::string::npos);
  EXPECT_NE(message([] { cosine_restarts(.1, 4, .5); }).find("mult is 0.5"), std::string::npos);
}

// Schedules do not change as attributes of a call.
TEST(Schedule, ReadsBackFromFormulasAndNumbers) {
  const std::vector<std::pair<Schedule, std::string>> rows = {
      {0.1, "constant"},
      {cosine(.1, 10), "cosine"},
      {piecewise({2, 5}, {.1, .05, .01}), "piecewise"},
      {chain({cosine_restarts(.1, 4, 2), 0.5}), "chain(cosine_restarts, constant)"},
      {join({chain({step(.1, .5, 3)}), warmup(2, one_cycle(.1, 8)), .01}, {3, 9}),
       "join(chain(step), join(linear_warmup, one_cycle), constant)"}};
  for (const auto& [schedule, text] : rows) {
    EXPECT_EQ(optimizer::formulas_of(schedule.tree()), text);
    const Schedule read(optimizer::read_schedule(text, optimizer::numbers_of(schedule.tree())));
    EXPECT_EQ(read.tree(), schedule.tree());
    for (int64_t t = 0; t < 20; ++t) EXPECT_EQ(read(t), schedule(t)) << text;
  }
}

TEST(Schedule, AreEqualWhereTheirNumbersAre) {
  EXPECT_EQ(Schedule(0.1), Schedule(0.1));
  EXPECT_EQ(cosine(.1, 10), cosine(.1, 10));
  EXPECT_NE(cosine(.1, 10), cosine(.1, 11));
  EXPECT_NE(Schedule(0.1), cosine(.1, 10));
  const auto half = [](int64_t) { return 0.5; };
  const Schedule host = half, copy = host, other = half;
  EXPECT_EQ(host, copy);
  EXPECT_NE(host, other);
}

}  // namespace
}  // namespace etude::optim::schedule_test
