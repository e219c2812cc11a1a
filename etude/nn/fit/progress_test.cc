// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/progress.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace etude::nn {
namespace {

std::string shown(bool bar, int columns = 0) {
  std::FILE* file = std::tmpfile();
  FitState state;
  state.epochs = 12;
  state.steps = state.step = 4;
  state.batch_size = 100;
  state.loss.update(0.5);
  state.accuracy.update(0.75);
  const Callback callback = progress({.stream = file, .bar = bar, .columns = columns});
  callback(Event::kEpochStart, state);
  callback(Event::kBatchEnd, state);
  state.history.epochs.push_back(
      {.loss = 0.5, .validation_loss = 0.25, .validation_accuracy = 0.875, .has_validation = true});
  callback(Event::kEpochEnd, state);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

// spec: F2
TEST(Progress, LogsGetPlainLinesAndTerminalsABar) {
  const std::string log = shown(false), terminal = shown(true);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
  EXPECT_EQ(log.find('\r'), std::string::npos);
  EXPECT_EQ(log.find('\x1b'), std::string::npos);
  EXPECT_EQ(log.find("epoch  1/12  loss 0.5000  accuracy 0.7500  validation loss 0.2500  accuracy "
                     "0.8750"),
            0u)
      << log;
  EXPECT_NE(terminal.find("100%"), std::string::npos);
  EXPECT_NE(terminal.find(" left"), std::string::npos);
  EXPECT_NE(terminal.find("/s"), std::string::npos);
}

// The columns that a text takes in a terminal, without its control sequences.
std::size_t columns_of(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count - std::string("\r").size() - std::string("\x1b[K").size();
}

// spec: F2
TEST(Progress, ABarFitsItsTerminal) {
  for (const int columns : {20, 40, 60, 80, 100, 200}) {
    const std::string text = shown(true, columns);
    const std::string bar = text.substr(0, text.find("\x1b[K") + 3);
    EXPECT_LT(columns_of(bar), static_cast<std::size_t>(columns)) << bar;
    EXPECT_EQ(bar.find("\repoch  1/12 "), 0u);
    EXPECT_EQ(bar.find("━") != std::string::npos, columns >= 80) << columns;
  }
}

// spec: F2
TEST(Progress, AnEpochThatWasCutSaysSoAndMetricsHaveNames) {
  std::FILE* file = std::tmpfile();
  FitState state;
  state.epochs = 2;
  state.step = 3;
  state.steps = 9;
  const Callback callback = progress({.stream = file, .bar = false});
  callback(Event::kEpochStart, state);
  state.history.epochs.push_back({.loss = 0.5});
  callback(Event::kEpochEnd, state);
  state.step = state.steps;
  state.history.epochs.push_back({.loss = 0.25,
                                  .validation_loss = 1,
                                  .has_validation = true,
                                  .metrics = {{"auc", 0.75}, {"f1", 0.5}},
                                  .validation_metrics = {{"auc", 0.625}}});
  callback(Event::kEpochEnd, state);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text.find("epoch 1/2  loss 0.5000  stopped after 3 of 9 steps  "), 0u) << text;
  EXPECT_NE(text.find("loss 0.2500  auc 0.7500  f1 0.5000  validation loss 1.0000  auc 0.6250  "),
            std::string::npos)
      << text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}
// The cells of a line of a curve; each takes three bytes.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = line.find_last_of(' ') + 4; at < line.size(); at += 3) {
    cells.push_back(line.substr(at, 3));
  }
  return cells;
}
const std::string kBlank = "\u2800";

TEST(DrawCurve, ShowsScaleAndShape) {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i) values.push_back(static_cast<float>(200 - i));
  values.push_back(std::nanf(""));
  const auto lines = lines_of(draw_curve(values, 20, 4));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].find(" 19"), 0u) << lines[0];
  EXPECT_EQ(lines[3].find(" 101.500 ┤"), 0u) << lines[3];
  EXPECT_EQ(lines[4].find("         └──"), 0u);
  EXPECT_EQ(lines[5], "          1                101");
  // Falling values: dots at the left of the top row, the right of the last.
  const auto top = cells_of(lines[0]), bottom = cells_of(lines[3]);
  ASSERT_EQ(top.size(), 20u);
  EXPECT_NE(top[0], kBlank);
  EXPECT_EQ(top[19], kBlank);
  EXPECT_EQ(bottom[0], kBlank);
  EXPECT_NE(bottom[19], kBlank);
  // A curve without holes: each column has a dot in some row.
  for (std::size_t column = 0; column < 20; ++column) {
    int filled = 0;
    for (int row = 0; row < 4; ++row) {
      filled += cells_of(lines[static_cast<std::size_t>(row)])[column] != kBlank ? 1 : 0;
    }
    EXPECT_GE(filled, 1) << column;
  }
}

// A training's loss falls from 2.3 within a few steps; the rest must not be a flat line.
TEST(DrawCurve, ShowsTheLaterShape) {
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) {
    const auto t = static_cast<float>(i);
    values.push_back(2 * std::exp(-t / 10) + 0.5f * std::exp(-t / 400) + 0.02f);
  }
  const auto lines = lines_of(draw_curve(values, 40, 8));
  std::size_t used = 0;  // rows that the second half of the values fills
  for (std::size_t row = 0; row < 8; ++row) {
    const auto cells = cells_of(lines[row]);
    for (std::size_t column = 20; column < 40; ++column) {
      if (cells[column] == kBlank) continue;
      ++used;
      break;
    }
  }
  EXPECT_GE(used, 4u);
}

TEST(DrawCurve, FewAndStrangeValues) {
  EXPECT_EQ(draw_curve({}, 20, 4), "");
  const std::vector<float> none = {std::nanf(""), INFINITY};
  EXPECT_EQ(draw_curve(none, 20, 4), "");
  for (const std::vector<float>& values :
       {std::vector<float>{1}, {1, 1, 1}, {-1, 3}, {0, 0}, {1e-30f, 1e30f}}) {
    for (const int width : {1, 2, 20}) {
      for (const int height : {1, 2, 5}) {
        EXPECT_EQ(lines_of(draw_curve(values, width, height)).size(),
                  static_cast<std::size_t>(height + 2));
      }
    }
  }
}

}  // namespace
}  // namespace etude::nn
