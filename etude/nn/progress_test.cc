// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/progress.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace etude::nn {
namespace {

std::string shown(bool bar) {
  std::FILE* file = std::tmpfile();
  FitState state;
  state.epochs = 12;
  state.steps = state.step = 4;
  state.batch_size = 100;
  state.loss.update(0.5);
  state.accuracy.update(0.75);
  const Callback callback = progress({.stream = file, .bar = bar});
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

TEST(DrawCurve, ShowsScaleAndShape) {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i) values.push_back(static_cast<float>(100 - i));
  values.push_back(std::nanf(""));
  const std::string curve = draw_curve(values, 20, 4);
  EXPECT_EQ(std::count(curve.begin(), curve.end(), '\n'), 4);
  EXPECT_NE(curve.find("99."), std::string::npos);
  // A cell takes three bytes. Falling values: dots at the left of the top row, the right of the
  // last.
  const std::string blank = "\u2800", bar = "│";
  const auto top = curve.find(bar) + bar.size();
  EXPECT_NE(curve.substr(top, 3), blank);
  EXPECT_EQ(curve.substr(top + 3 * 19, 3), blank);
  EXPECT_NE(curve.substr(curve.size() - 4, 3), blank);
  EXPECT_EQ(draw_curve({}, 20, 4), "");
  const std::vector<float> nothing = {std::nanf("")};
  EXPECT_EQ(draw_curve(nothing, 20, 4), "");
  const std::vector<float> flat = {1, 1, 1};
  EXPECT_NE(draw_curve(flat, 3, 2).find("1.000"), std::string::npos);
}

}  // namespace
}  // namespace etude::nn
