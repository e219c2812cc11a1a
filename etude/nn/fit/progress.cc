// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>

#include <sys/ioctl.h>
#include <unistd.h>

#include "etude/base/check.h"

namespace etude::nn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

class Progress {
 public:
  explicit Progress(ProgressOptions options)
      : stream_(options.stream),
        has_bar_(options.bar.value_or(::isatty(::fileno(options.stream)) == 1)),
        columns_(options.columns) {}

  void operator()(Event event, const FitState& state) {
    if (event == Event::kFitStart) {
      std::fflush(stdout);  // keeps the order of both streams in a log
    } else if (event == Event::kEpochStart) {
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

  // One line at most, for any width of the terminal: a bar that is redrawn must not wrap.
  void draw_bar(const FitState& state) {
    shown_ = Clock::now();
    const int64_t steps = std::max<int64_t>(state.steps, 1);
    const double per_step =
        seconds_since(start_) / static_cast<double>(std::max<int64_t>(state.step - first_step_, 1));
    const auto left =
        static_cast<double>(steps - state.step + (state.epochs - state.epoch - 1) * steps);
    std::string text =
        fmt::format("{:>3}%  loss {:.4f}{}  {:.0f}/s  {} left", 100 * state.step / steps,
                    state.loss.result(), accuracy(state), rate(), duration(per_step * left));
    const std::string head = title(state);
    const auto room =
        static_cast<int64_t>(columns()) - static_cast<int64_t>(head.size() + text.size()) - 3;
    const int64_t width = std::clamp<int64_t>(room, 0, 24);
    std::string bar;
    for (int64_t i = 0; i < width; ++i) bar += i < width * state.step / steps ? "━" : "┄";
    if (room < -1)
      text.resize(static_cast<std::size_t>(
          std::max<int64_t>(static_cast<int64_t>(text.size()) + room + 1, 0)));
    write(fmt::format("\r{} {}{}{}\x1b[K", head, bar, bar.empty() ? "" : " ", text));
  }

  int columns() const {
    if (columns_ > 0) return columns_;
    winsize size{};
    const bool is_known = ::ioctl(::fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : 80;
  }

  void write_line(const FitState& state) {
    const EpochRecord& epoch = state.history.epochs.back();
    std::string line = fmt::format("{}{}  loss {:.4f}{}{}", has_bar_ ? "\r\x1b[K" : "",
                                   title(state), epoch.loss, accuracy(state), named(epoch.metrics));
    if (epoch.has_validation) {
      line += fmt::format("  validation loss {:.4f}", epoch.validation_loss);
      line += epoch.validation_metrics.empty()
                  ? fmt::format("  accuracy {:.4f}", epoch.validation_accuracy)
                  : named(epoch.validation_metrics);
    }
    if (state.step < state.steps) {
      line += fmt::format("  stopped after {} of {} steps", state.step, state.steps);
    }
    write(fmt::format("{}  {:.0f}/s  {:.1f} s\n", line, rate(), epoch.seconds));
  }

  static std::string title(const FitState& state) {
    return fmt::format("epoch {:>{}}/{}", state.epoch + 1, std::to_string(state.epochs).size(),
                       state.epochs);
  }
  static std::string named(const Numbers& metrics) {
    std::string out;
    for (const auto& [name, value] : metrics) out += fmt::format("  {} {:.4f}", name, value);
    return out;
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
  int columns_;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
  int64_t samples_ = 0, first_step_ = 0;
};

// The points of a curve: means of parts of the values, on a scale for most of them. A few high
// points, as at the start of a training, are cut off at the top.
struct Scale {
  std::vector<double> points;
  double low = 0, high = 0;
  bool is_logarithmic = false;

  // Of the way from the lowest to the highest.
  double part(double value) const {
    if (high <= low) return 0.5;
    return is_logarithmic ? std::log(value / low) / std::log(high / low)
                          : (value - low) / (high - low);
  }
  double value(double part) const {
    return is_logarithmic ? low * std::pow(high / low, part) : low + part * (high - low);
  }
};

// At most n points; values that are no numbers are left out.
Scale scale_of(std::span<const float> values, std::size_t n) {
  std::vector<double> finite;
  for (const float value : values) {
    if (std::isfinite(value)) finite.push_back(static_cast<double>(value));
  }
  Scale out;
  n = std::min(n, finite.size());
  if (n == 0) return out;
  std::vector<double> counts(n, 0);
  out.points.assign(n, 0);
  for (std::size_t i = 0; i < finite.size(); ++i) {
    out.points[i * n / finite.size()] += finite[i];
    counts[i * n / finite.size()] += 1;
  }
  for (std::size_t i = 0; i < n; ++i) out.points[i] /= counts[i];
  std::vector<double> sorted = out.points;
  std::sort(sorted.begin(), sorted.end());
  out.low = sorted.front();
  out.high = sorted[static_cast<std::size_t>(std::ceil(0.97 * static_cast<double>(n - 1)))];
  out.is_logarithmic = out.low > 0 && out.high > 2 * out.low;
  return out;
}

// The character of a cell of 2 by 4 dots (Unicode block Braille patterns), in UTF-8.
std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Points in cells of 2 by 4.
class Dots {
 public:
  Dots(int width, int height)
      : width_(static_cast<std::size_t>(width)),
        cells_(width_ * static_cast<std::size_t>(height), 0) {}

  void set(int x, long y) {
    constexpr std::array<std::array<unsigned, 2>, 4> kDots = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    const auto column = static_cast<std::size_t>(x), row = static_cast<std::size_t>(y);
    cells_[row / 4 * width_ + column / 2] |= kDots[row % 4][column % 2];
  }
  std::string row(int row) const {
    std::string text;
    for (std::size_t i = 0; i < width_; ++i) {
      text += braille(cells_[static_cast<std::size_t>(row) * width_ + i]);
    }
    return text;
  }

 private:
  std::size_t width_;
  std::vector<unsigned> cells_;
};

}  // namespace

Callback progress(ProgressOptions options) {
  return [state = std::make_shared<Progress>(options)](Event event, FitState& fit) {
    (*state)(event, fit);
  };
}

std::string draw_curve(std::span<const float> values, int width, int height) {
  if (values.empty() || width < 1 || height < 1) return "";
  const Scale scale = scale_of(values, static_cast<std::size_t>(2 * width));
  if (scale.points.empty()) return "";
  Dots dots(width, height);
  const auto row_of = [&](double value) {
    return std::clamp(std::lround((1 - scale.part(value)) * (4 * height - 1)), 0L, 4L * height - 1);
  };
  const auto last = static_cast<double>(scale.points.size() - 1);
  long before = row_of(scale.points[0]);
  for (int x = 0; x < 2 * width && (last > 0 || x == 0); ++x) {
    const double at = last * x / std::max(2 * width - 1, 1);
    const auto i = static_cast<std::size_t>(at);
    const double next = scale.points[std::min(i + 1, scale.points.size() - 1)];
    const double value = scale.points[i] + (next - scale.points[i]) * (at - std::floor(at));
    const long row = row_of(value);
    dots.set(x, row);
    for (long y = std::min(row, before) + 1; y < std::max(row, before); ++y) dots.set(x, y);
    before = row;
  }
  std::string text;
  for (int row = 0; row < height; ++row) {
    // Ticks at the top, at the bottom and at each third between.
    const bool has_tick = row == 0 || row == height - 1 || (row % 3 == 0 && row < height - 2);
    const double value = scale.value(1 - (4.0 * row + (row == 0            ? 0
                                                       : row == height - 1 ? 3
                                                                           : 1.5)) /
                                             std::max(4 * height - 1, 1));
    text += has_tick ? fmt::format("{:>8.3f} ┤", value) : fmt::format("{:>8} │", "");
    text += dots.row(row) + '\n';
  }
  std::string line;
  for (int i = 0; i < width; ++i) line += "─";
  const std::string end = std::to_string(values.size());
  return text +
         fmt::format("{:>8} └{}\n{:>10}1{:>{}}\n", "", line, "", end, std::max(width - 1, 1));
}

}  // namespace etude::nn
