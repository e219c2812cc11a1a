// SPDX-License-Identifier: Apache-2.0
// Curves as SVG (Scalable Vector Graphics 1.1): plain lines and texts, no script and no style
// sheet.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/files/atomic_file.h"
#include "etude/files/xml_text.h"
#include "etude/io/picture.h"

namespace etude::io {
namespace {

using etude::internal::xml_text;

constexpr double kLeft = 64, kRight = 16, kTop = 32, kBottom = 48;  // room around the axes
// Distinct for colour-blind people (Okabe and Ito, 2008).
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

// One axis: values low to high on pixels from `at` to `to`.
struct Axis {
  double low = 0, high = 1, at = 0, to = 1;
  bool is_log = false;

  double scaled(double v) const { return is_log ? std::log10(v) : v; }
  double pixel(double v) const { return at + (scaled(v) - low) / (high - low) * (to - at); }
  bool shows(double v) const { return std::isfinite(v) && (!is_log || v > 0); }

  // Low and high from values: a constant gets room on both sides.
  void fit(double least, double most) {
    if (!(least <= most)) least = 0, most = is_log ? 0 : 1;
    if (least == most) least -= 0.5, most += 0.5;
    low = least, high = most;
  }
};

struct Tick {
  double value;
  std::string text;
};

// About five numbers whose step is 1, 2 or 5 times a power of ten; powers of ten on a log axis.
std::vector<Tick> ticks_of(const Axis& axis) {
  const double rough = (axis.high - axis.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = factor * power;
  }
  if (axis.is_log) step = std::max(1.0, std::ceil(step));
  std::vector<Tick> out;
  for (double k = std::ceil(axis.low / step); k * step <= axis.high + 1e-9 * step; ++k) {
    const double value = k * step;
    if (axis.is_log) {
      out.push_back({std::pow(10, value), fmt::format("1e{:.0f}", value)});
    } else {
      out.push_back({value, fmt::format("{:.6g}", value)});
    }
  }
  return out;
}

struct Point {
  double x, y;
};

double x_of(const Curve& curve, std::size_t i) {
  return curve.x.empty() ? static_cast<double>(i) : static_cast<double>(curve.x[i]);
}

// The runs of neighbouring points that are shown.
std::vector<std::vector<Point>> runs_of(const Curve& curve, const Axis& x, const Axis& y) {
  std::vector<std::vector<Point>> runs(1);
  for (std::size_t i = 0; i < curve.y.size(); ++i) {
    const double at = x_of(curve, i), value = curve.y[i];
    if (std::isfinite(at) && y.shows(value)) {
      runs.back().push_back({x.pixel(at), y.pixel(value)});
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  return runs;
}

// Of points that fall on one column of pixels the first, the lowest, the highest and the last.
std::vector<Point> thinned(const std::vector<Point>& run) {
  std::vector<Point> out;
  for (std::size_t i = 0; i < run.size();) {
    std::size_t end = i, low = i, high = i;
    while (end < run.size() && std::floor(run[end].x) == std::floor(run[i].x)) {
      if (run[end].y < run[low].y) low = end;
      if (run[end].y > run[high].y) high = end;
      ++end;
    }
    std::array<std::size_t, 4> kept = {i, std::min(low, high), std::max(low, high), end - 1};
    for (auto at = kept.begin(); at != std::unique(kept.begin(), kept.end()); ++at) {
      out.push_back(run[*at]);
    }
    i = end;
  }
  return out;
}

class Plot {
 public:
  Plot(const std::vector<Curve>& curves, const PlotOptions& options)
      : curves_(curves), options_(options) {
    y_.is_log = options.log_y;
    x_.at = kLeft, x_.to = options.width - kRight;
    y_.at = options.height - kBottom, y_.to = kTop;
    fit();
  }

  std::string draw() {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}")"
        R"( font-family="sans-serif" font-size="12" fill="#333">)",
        options_.width, options_.height);
    add(R"(<rect width="100%" height="100%" fill="white"/>)");
    draw_axes();
    for (std::size_t k = 0; k < curves_.size(); ++k) draw_curve(k);
    if (curves_.size() > 1) draw_legend();
    return text_ + "</svg>\n";
  }

 private:
  template <class... A>
  void add(fmt::format_string<A...> format, A&&... values) {
    text_ += fmt::format(format, std::forward<A>(values)...) + "\n";
  }

  void fit() {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    double x0 = kNone, x1 = -kNone, y0 = kNone, y1 = -kNone;
    for (const Curve& curve : curves_) {
      for (std::size_t i = 0; i < curve.y.size(); ++i) {
        const double x = x_of(curve, i), y = curve.y[i];
        if (!std::isfinite(x) || !y_.shows(y)) continue;
        x0 = std::min(x0, x), x1 = std::max(x1, x);
        y0 = std::min(y0, y_.scaled(y)), y1 = std::max(y1, y_.scaled(y));
      }
    }
    x_.fit(x0, x1);
    y_.fit(y0, y1);
  }

  void draw_axes() {
    for (const Tick& tick : ticks_of(x_)) {
      const double at = x_.pixel(tick.value);
      add(R"(<path d="M{0:.1f} {1:.1f}V{2:.1f}" stroke="#ddd"/>)", at, y_.at, y_.to);
      add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", at, y_.at + 16,
          tick.text);
    }
    for (const Tick& tick : ticks_of(y_)) {
      const double at = y_.pixel(tick.value);
      add(R"(<path d="M{0:.1f} {1:.1f}H{2:.1f}" stroke="#ddd"/>)", x_.at, at, x_.to);
      add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", x_.at - 6, at + 4,
          tick.text);
    }
    add(R"(<path d="M{:.1f} {:.1f}V{:.1f}H{:.1f}" stroke="#333" fill="none"/>)", x_.at, y_.to,
        y_.at, x_.to);
    const double middle = (x_.at + x_.to) / 2, half = (y_.at + y_.to) / 2;
    add(R"(<text x="{:.1f}" y="20" text-anchor="middle" font-size="14">{}</text>)", middle,
        xml_text(options_.title));
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", middle,
        options_.height - 10.0, xml_text(options_.x));
    add(R"svg(<text transform="translate(14 {:.1f})rotate(-90)" text-anchor="middle">{}</text>)svg",
        half, xml_text(options_.y));
  }

  void draw_curve(std::size_t k) {
    for (const std::vector<Point>& run : runs_of(curves_[k], x_, y_)) {
      if (run.empty()) continue;
      std::string points;
      for (const Point& p : thinned(run)) points += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
      points.pop_back();
      // A point alone is a line without length, whose round ends show.
      add(R"(<polyline points="{}{}" fill="none" stroke="{}" stroke-width="1.5" )"
          R"(stroke-linecap="round" stroke-linejoin="round"/>)",
          points, run.size() == 1 ? " " + points : "", kColours[k % kColours.size()]);
    }
  }

  void draw_legend() {
    for (std::size_t k = 0; k < curves_.size(); ++k) {
      const double y = kTop + 12 + 18 * static_cast<double>(k), x = x_.to - 120;
      add(R"(<path d="M{:.1f} {:.1f}h20" stroke="{}" stroke-width="3"/>)", x, y - 4,
          kColours[k % kColours.size()]);
      add(R"(<text x="{:.1f}" y="{:.1f}">{}</text>)", x + 26, y, xml_text(curves_[k].name));
    }
  }

  const std::vector<Curve>& curves_;
  const PlotOptions& options_;
  Axis x_, y_;
  std::string text_;
};

}  // namespace

void write_svg(const std::string& path, const std::vector<Curve>& curves,
               const PlotOptions& options, CallSite where) {
  etude::internal::check_options("write_svg", options, where);
  etude::internal::located("write_svg", where, [&] {
    for (const Curve& curve : curves) {
      ETUDE_REQUIRE(curve.x.empty() || curve.x.size() == curve.y.size(),
                    "curve '{}' has {} values of x and {} of y; give as many, or none of x",
                    curve.name, curve.x.size(), curve.y.size());
    }
    etude::internal::AtomicFile file(path);
    file.write(Plot(curves, options).draw());
    file.commit();
  });
}

}  // namespace etude::io
