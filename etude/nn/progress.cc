// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include <unistd.h>

#include "etude/base/check.h"

namespace etude::nn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

class Progress {
 public:
  explicit Progress(ProgressOptions options)
      : stream_(options.stream),
        has_bar_(options.bar.value_or(::isatty(::fileno(options.stream)) == 1)) {}

  void operator()(Event event, const FitState& state) {
    if (event == Event::kEpochStart) {
      start_ = shown_ = Clock::now();
      samples_ = 0;
      first_step_ = state.step;
    } else if (event == Event::kBatchEnd) {
      samples_ += state.batch_size;
      // Redrawing ten times per second costs nothing that can be measured.
      if (has_bar_ && (seconds_since(shown_) > 0.1 || state.step == state.steps)) draw_bar(state);
    } else if (event == Event::kEpochEnd) {
      write_line(state);
    }
  }

 private:
  double rate() const {
    return static_cast<double>(samples_) / std::max(seconds_since(start_), 1e-9);
  }

  void draw_bar(const FitState& state) {
    constexpr int kWidth = 24;
    shown_ = Clock::now();
    const std::int64_t steps = std::max<std::int64_t>(state.steps, 1);
    const auto filled = static_cast<int>(kWidth * state.step / steps);
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "┄";
    const double per_step = seconds_since(start_) / static_cast<double>(std::max<std::int64_t>(
                                                        state.step - first_step_, 1));
    const auto left =
        static_cast<double>(steps - state.step + (state.epochs - state.epoch - 1) * steps);
    write(fmt::format("\r{} {} {:>3}%  loss {:.4f}{}  {:.0f}/s  {} left\x1b[K", title(state), bar,
                      100 * state.step / steps, state.loss.result(), accuracy(state), rate(),
                      duration(per_step * left)));
  }

  void write_line(const FitState& state) {
    const EpochRecord& epoch = state.history.epochs.back();
    std::string line = fmt::format("{}{}  loss {:.4f}{}", has_bar_ ? "\r\x1b[K" : "", title(state),
                                   epoch.loss, accuracy(state));
    if (epoch.has_validation) {
      line += fmt::format("  validation loss {:.4f}  accuracy {:.4f}", epoch.validation_loss,
                          epoch.validation_accuracy);
    }
    write(fmt::format("{}  {:.0f}/s  {:.1f} s\n", line, rate(), epoch.seconds));
  }

  static std::string title(const FitState& state) {
    return fmt::format("epoch {:>{}}/{}", state.epoch + 1, std::to_string(state.epochs).size(),
                       state.epochs);
  }
  static std::string accuracy(const FitState& state) {
    const double value = state.accuracy.result();
    return value > 0 ? fmt::format("  accuracy {:.4f}", value) : "";
  }
  void write(const std::string& text) {
    std::fputs(text.c_str(), stream_);
    std::fflush(stream_);
  }

  std::FILE* stream_;
  bool has_bar_;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
  std::int64_t samples_ = 0, first_step_ = 0;
};

// Means of n parts of the values; not a number where a part has none.
std::vector<double> binned(std::span<const float> values, std::size_t n) {
  std::vector<double> sums(n, 0), counts(n, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    sums[i * n / values.size()] += static_cast<double>(values[i]);
    counts[i * n / values.size()] += 1;
  }
  for (std::size_t i = 0; i < n; ++i) sums[i] /= counts[i];
  return sums;
}

// The character of a cell of 2 by 4 dots (Unicode block Braille patterns), in UTF-8.
std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

Callback progress(ProgressOptions options) {
  return [state = std::make_shared<Progress>(options)](Event event, FitState& fit) {
    (*state)(event, fit);
  };
}

std::string draw_curve(std::span<const float> values, int width, int height) {
  if (values.empty() || width < 1 || height < 1) return "";
  constexpr std::array<std::array<unsigned, 2>, 4> kDots = {
      {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
  const std::vector<double> means =
      binned(values, std::min(values.size(), static_cast<std::size_t>(2 * width)));
  double low = INFINITY, high = -INFINITY;
  for (const double v : means) {
    if (std::isnan(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  if (low > high) return "";
  const int rows = 4 * height;
  std::vector<unsigned> cells(static_cast<std::size_t>(width * height), 0);
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (std::isnan(means[i])) continue;
    const double part = high > low ? (high - means[i]) / (high - low) : 0.5;
    const auto row = static_cast<std::size_t>(std::lround(part * (rows - 1)));
    cells[row / 4 * static_cast<std::size_t>(width) + i / 2] |= kDots[row % 4][i % 2];
  }
  std::string text;
  for (int row = 0; row < height; ++row) {
    const std::string label = row == 0            ? fmt::format("{:.3f}", high)
                              : row == height - 1 ? fmt::format("{:.3f}", low)
                                                  : "";
    text += fmt::format("{:>8} │", label);
    for (int column = 0; column < width; ++column) {
      text += braille(cells[static_cast<std::size_t>(row * width + column)]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace etude::nn
