// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "etude/core/call/builtin.h"
#include "etude/ops.h"

namespace etude::optim::internal {
namespace {

// One vector in parts; an absent part is 0.
using Vector = std::vector<Tensor>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].has_value() && b[i].has_value()) {
      sum += etude::sum(astype(a[i], kFloat64) * astype(b[i], kFloat64)).item<double>();
    }
  }
  return sum;
}

double largest(const Vector& a) {
  double most = 0;
  for (const Tensor& part : a) {
    if (part.has_value() && part.size() > 0) {
      most = std::max(most, etude::max(abs(part)).item<double>());
    }
  }
  return most;
}

// a + factor b.
Vector sum_of(const Vector& a, double factor, const Vector& b) {
  Vector out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!b[i].has_value()) {
      out.push_back(a[i]);
    } else {
      out.push_back(a[i].has_value() ? a[i] + factor * b[i] : factor * b[i]);
    }
  }
  return out;
}

// A point on the line of a search: its place, value and slope, and the gradient there.
struct Point {
  double at = 0, value = 0, slope = 0;
  Vector x, gradient;
};

// Where the cubic through two points with their slopes is least, kept a tenth of the way inside.
double between(const Point& a, const Point& b) {
  const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at);
  const double root = std::sqrt(std::max(d1 * d1 - a.slope * b.slope, 0.0));
  const double d2 = b.at > a.at ? root : -root;
  const double at = b.at - (b.at - a.at) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
  const double low = std::min(a.at, b.at), high = std::max(a.at, b.at), inside = .1 * (high - low);
  return std::isfinite(at) ? std::clamp(at, low + inside, high - inside) : (low + high) / 2;
}

// A step along `direction` from `start` that fulfils the strong Wolfe conditions, or the lowest
// point found. Nothing if no point lies lower.
class LineSearch {
 public:
  LineSearch(const Evaluate& evaluate, const LBFGSOptions& options, Point start, Vector direction)
      : evaluate_(evaluate),
        options_(options),
        start_(std::move(start)),
        direction_(std::move(direction)) {}

  std::optional<Point> run(double step) {
    Point last = start_;
    while (evaluations_ < options_.evaluations) {
      Point here = point(step);
      if (!falls(here) || (evaluations_ > 1 && here.value >= last.value)) {
        return zoom(std::move(last), std::move(here));
      }
      if (is_flat(here)) return here;
      if (here.slope >= 0) return zoom(std::move(here), std::move(last));
      last = std::move(here);
      step *= 2;
    }
    return lower(std::move(last));
  }
  int64_t evaluations() const { return evaluations_; }

 private:
  Point point(double at) {
    ++evaluations_;
    Point out{.at = at, .x = sum_of(start_.x, at, direction_)};
    out.value = evaluate_(out.x, out.gradient);
    out.slope = dot(out.gradient, direction_);
    return out;
  }
  // A value that is no number does not fall.
  bool falls(const Point& p) const {
    return p.value <= start_.value + options_.armijo * p.at * start_.slope;
  }
  bool is_flat(const Point& p) const {
    return std::abs(p.slope) <= -options_.curvature * start_.slope;
  }
  std::optional<Point> lower(Point p) const {
    return p.at > 0 && p.value < start_.value ? std::optional(std::move(p)) : std::nullopt;
  }

  // Searches between a low point and a high point, which enclose a point that fulfils the
  // conditions.
  std::optional<Point> zoom(Point low, Point high) {
    while (evaluations_ < options_.evaluations) {
      Point here = point(between(low, high));
      if (!falls(here) || here.value >= low.value) {
        high = std::move(here);
        continue;
      }
      if (is_flat(here)) return here;
      if (here.slope * (high.at - low.at) >= 0) high = std::move(low);
      low = std::move(here);
    }
    return lower(std::move(low));
  }

  const Evaluate& evaluate_;
  const LBFGSOptions& options_;
  Point start_;
  Vector direction_;
  int64_t evaluations_ = 0;
};

struct Pair {
  Vector step, change;  // of x and of the gradient
  double scale = 0;     // 1 / their product
};

// -H gradient by two loops over the history.
Vector direction_of(const std::deque<Pair>& history, const Vector& gradient) {
  Vector q = gradient;
  std::vector<double> alphas(history.size());
  for (std::size_t i = history.size(); i-- > 0;) {
    alphas[i] = history[i].scale * dot(history[i].step, q);
    q = sum_of(q, -alphas[i], history[i].change);
  }
  double first = -1;
  if (!history.empty()) {
    const Pair& last = history.back();
    first = -1 / (last.scale * dot(last.change, last.change));
  }
  for (Tensor& part : q) {
    if (part.has_value()) part = first * part;
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    const double beta = -history[i].scale * dot(history[i].change, q);
    q = sum_of(q, beta - alphas[i], history[i].step);
  }
  return q;
}

}  // namespace

LBFGSResult run_lbfgs(std::vector<Tensor>& x, const Evaluate& evaluate,
                      const LBFGSOptions& options) {
  LBFGSResult out;
  Point now{.x = x};
  now.value = evaluate(now.x, now.gradient);
  out.evaluations = 1;
  std::deque<Pair> history;
  const auto end = [&](bool has_converged, std::string why) {
    out.value = now.value;
    out.has_converged = has_converged;
    out.why = std::move(why);
    x = now.x;
    return out;
  };
  while (out.iterations < options.iterations) {
    if (largest(now.gradient) <= options.gradient_limit) {
      return end(true, "no element of the gradient is above its limit");
    }
    Vector direction = direction_of(history, now.gradient);
    now.at = 0;
    now.slope = dot(now.gradient, direction);
    if (!(now.slope < 0)) return end(false, "the direction does not fall");
    const double first = history.empty() ? std::min(1.0, 1 / largest(now.gradient)) : 1;
    LineSearch search(evaluate, options, now, direction);
    std::optional<Point> next = search.run(first);
    out.evaluations += search.evaluations();
    if (!next) return end(false, "the line search found nothing lower");
    ++out.iterations;
    Pair pair{sum_of(next->x, -1, now.x), sum_of(next->gradient, -1, now.gradient)};
    const double product = dot(pair.step, pair.change), fall = now.value - next->value;
    now = std::move(*next);
    if (product > 1e-300) {
      pair.scale = 1 / product;
      history.push_back(std::move(pair));
      if (history.size() > static_cast<std::size_t>(options.history)) history.pop_front();
    }
    if (fall <= options.change_limit * std::max(1.0, std::abs(now.value))) {
      return end(true, "the value falls by no more than its limit");
    }
  }
  return end(false, fmt::format("{} iterations were done", out.iterations));
}

}  // namespace etude::optim::internal
