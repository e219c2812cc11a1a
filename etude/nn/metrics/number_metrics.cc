// SPDX-License-Identifier: Apache-2.0
// Metrics of numbers, of sequences and of images.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "etude/base/check.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/metrics/class_counts.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/ops.h"

namespace etude::nn::metrics {
namespace {

using internal::part;
using Numbers = std::vector<double>;

Tensor as_double(const Tensor& x) { return astype(x, kFloat64); }
Tensor difference(const Tensor& predicted, const Tensor& expected) {
  return as_double(predicted) - as_double(expected);
}

// A metric of the mean of terms.
template <class Terms, class Finish>
Metric mean_metric(const char* name, const Terms& terms, const Finish& finish) {
  return {name, Joined::kSum,
          [terms](const Tensor& predicted, const Tensor& expected) {
            const Tensor all = terms(predicted, expected);
            return std::vector<Tensor>{etude::sum(all), internal::count_tensor(all.size())};
          },
          [finish](std::span<const Tensor> sums) {
            return Numbers{finish(part(sums[0].item<double>(), sums[1].item<double>()))};
          }};
}
double as_it_is(double x) { return x; }
Tensor squares(const Tensor& predicted, const Tensor& expected) {
  return square(difference(predicted, expected));
}

// A metric of `predicted` alone.
Metric of_values(const char* name, Joined joined, Tensor (*part_of)(const Tensor&)) {
  return {name, joined,
          [part_of](const Tensor& predicted, const Tensor&) {
            return std::vector<Tensor>{part_of(as_double(predicted))};
          },
          [](std::span<const Tensor> parts) { return Numbers{parts[0].item<double>()}; }};
}

}  // namespace

Metric mean_squared_error() { return mean_metric("mean_squared_error", squares, as_it_is); }
Metric root_mean_squared_error() {
  return mean_metric("root_mean_squared_error", squares, [](double x) { return std::sqrt(x); });
}
Metric mean_absolute_error() {
  return mean_metric(
      "mean_absolute_error", [](const Tensor& p, const Tensor& e) { return abs(difference(p, e)); },
      as_it_is);
}
Metric psnr(double range) {
  return mean_metric("psnr", squares,
                     [range](double x) { return 10 * std::log10(range * range / x); });
}

// Batches give count, mean, squared distance from it and squared errors: sums of squares about 0
// would cancel where means are large.
Metric r2() {
  const auto parts = [](const Tensor& predicted, const Tensor& expected) {
    const Tensor e = as_double(expected), middle = etude::mean(e);
    return std::vector<Tensor>{internal::count_tensor(e.size()), middle,
                               etude::sum(square(e - middle)),
                               etude::sum(squares(predicted, expected))};
  };
  return {"r2", Joined::kAll, parts, [](std::span<const Tensor> all) {
            double n = 0, mean = 0, spread = 0, errors = 0;
            for (std::size_t i = 0; i < all.size(); i += 4) {
              const auto more = all[i].item<double>();
              const double off = all[i + 1].item<double>() - mean;
              spread += all[i + 2].item<double>() + off * off * n * more / (n + more);
              mean += off * more / (n + more);
              n += more;
              errors += all[i + 3].item<double>();
            }
            return Numbers{1 - errors / spread};
          }};
}

Metric mean() {
  return mean_metric(
      "mean", [](const Tensor& p, const Tensor&) { return as_double(p); }, as_it_is);
}
Metric sum() {
  return of_values("sum", Joined::kSum, [](const Tensor& x) { return etude::sum(x); });
}
Metric max() {
  return of_values("max", Joined::kMax, [](const Tensor& x) { return etude::max(x); });
}

namespace {

Metric entropy_metric(const char* name, std::optional<int64_t> ignore_index,
                      double (*finish)(double)) {
  return {name, Joined::kSum,
          [ignore_index](const Tensor& logits, const Tensor& labels) {
            const Tensor terms = softmax_cross_entropy(
                logits, labels, {.reduction = "none", .ignore_index = ignore_index});
            const Tensor counts = ignore_index ? labels != *ignore_index : ones_like(labels);
            return std::vector<Tensor>{etude::sum(as_double(terms)),
                                       etude::sum(astype(counts, kInt64))};
          },
          [finish](std::span<const Tensor> sums) {
            return Numbers{finish(part(sums[0].item<double>(), sums[1].item<double>()))};
          }};
}

using Row = std::vector<int64_t>;

// The rows of all pairs of batches, each up to its first `end`.
std::vector<std::pair<Row, Row>> rows_of(std::span<const Tensor> parts, int64_t end) {
  std::vector<std::pair<Row, Row>> out;
  const auto row = [end](const Row& all, int64_t i, int64_t length) {
    const auto begin = all.begin() + i * length;
    return Row(begin, std::find(begin, begin + length, end));
  };
  for (std::size_t k = 0; k < parts.size(); k += 2) {
    const Row predicted = parts[k].to_vector<int64_t>();
    const Row expected = parts[k + 1].to_vector<int64_t>();
    for (int64_t i = 0; i < parts[k].shape()[0]; ++i) {
      out.emplace_back(row(predicted, i, parts[k].shape()[1]),
                       row(expected, i, parts[k + 1].shape()[1]));
    }
  }
  return out;
}

std::vector<Tensor> sequence_parts(const Tensor& predicted, const Tensor& expected) {
  ETUDE_REQUIRE(is_integer(predicted.dtype()) && is_integer(expected.dtype()) &&
                    predicted.rank() == 2 && expected.rank() == 2 &&
                    predicted.shape()[0] == expected.shape()[0],
                "predictions are {} and labels {}, but both need integers [n, length]",
                predicted.type()->to_string(), expected.type()->to_string());
  return {astype(predicted, kInt64), astype(expected, kInt64)};
}

// The least number of insertions, deletions and replacements (Levenshtein), row by row.
double edits(const Row& from, const Row& to) {
  std::vector<double> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = static_cast<double>(j);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    double diagonal = row[0];
    row[0] = static_cast<double>(i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const double replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// How often each run of n words occurs.
std::map<Row, double> runs_of(const Row& words, std::size_t n) {
  std::map<Row, double> out;
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    out[Row(words.begin() + static_cast<std::ptrdiff_t>(i),
            words.begin() + static_cast<std::ptrdiff_t>(i + n))] += 1;
  }
  return out;
}

double bleu_of(const std::vector<std::pair<Row, Row>>& rows, std::size_t order) {
  std::vector<double> found(order, 0), all(order, 0);
  double length = 0, wanted = 0;
  for (const auto& [predicted, expected] : rows) {
    length += static_cast<double>(predicted.size());
    wanted += static_cast<double>(expected.size());
    for (std::size_t n = 1; n <= order; ++n) {
      const std::map<Row, double> there = runs_of(expected, n);
      for (const auto& [run, count] : runs_of(predicted, n)) {
        const auto same = there.find(run);
        if (same != there.end()) found[n - 1] += std::min(count, same->second);
        all[n - 1] += count;
      }
    }
  }
  double logs = 0;
  for (std::size_t n = 0; n < order; ++n) {
    if (found[n] == 0) return 0;
    logs += std::log(found[n] / all[n]) / static_cast<double>(order);
  }
  return std::exp(logs + std::min(0.0, 1 - wanted / length));
}

}  // namespace

Metric perplexity(std::optional<int64_t> ignore_index) {
  return entropy_metric("perplexity", ignore_index, [](double x) { return std::exp(x); });
}
Metric bits_per_character(std::optional<int64_t> ignore_index) {
  return entropy_metric("bits_per_character", ignore_index, [](double x) { return x / M_LN2; });
}

Metric edit_distance(int64_t end) {
  return {"edit_distance", Joined::kAll, sequence_parts, [end](std::span<const Tensor> parts) {
            double sum = 0, length = 0;
            for (const auto& [predicted, expected] : rows_of(parts, end)) {
              sum += edits(predicted, expected);
              length += static_cast<double>(expected.size());
            }
            return Numbers{part(sum, length)};
          }};
}
Metric bleu(int64_t order, int64_t end, CallSite where) {
  etude::internal::check_range("bleu", "order", static_cast<double>(order), at_least(1), where);
  return {"bleu", Joined::kAll, sequence_parts, [order, end](std::span<const Tensor> parts) {
            return Numbers{bleu_of(rows_of(parts, end), static_cast<std::size_t>(order))};
          }};
}

constexpr int64_t kWindow = 11;
constexpr double kMiddle = 5;

// Weighted means over windows, channel by channel: the Gauss window is the product of two lines.
Metric ssim(double range) {
  const auto parts = [range](const Tensor& predicted, const Tensor& expected) {
    ETUDE_REQUIRE(predicted.rank() == 4 && predicted.shape() == expected.shape() &&
                      predicted.shape()[1] >= kWindow && predicted.shape()[2] >= kWindow,
                  "images have shapes {} and {}, but both need [n, height, width, channels] of {} "
                  "pixels and more",
                  predicted.shape().to_string(), expected.shape().to_string(), kWindow);
    const Shape& shape = predicted.shape();
    Numbers line;
    double total = 0;
    for (int64_t i = 0; i < kWindow; ++i) {
      const auto off = static_cast<double>(i) - kMiddle;
      line.push_back(std::exp(-off * off / (2 * 1.5 * 1.5)));
      total += line.back();
    }
    const Tensor window = Tensor(line) / total;
    const auto local = [&](const Tensor& x) {
      return conv2d(conv2d(x, reshape(window, {kWindow, 1, 1, 1})),
                    reshape(window, {1, kWindow, 1, 1}));
    };
    const auto channels = [&](const Tensor& x) {
      return reshape(permute_dims(as_double(x), {0, 3, 1, 2}),
                     {shape[0] * shape[3], shape[1], shape[2], 1});
    };
    const Tensor x = channels(predicted), y = channels(expected);
    const Tensor mx = local(x), my = local(y);
    const Tensor xx = local(x * x) - mx * mx, yy = local(y * y) - my * my,
                 xy = local(x * y) - mx * my;
    const double c1 = 0.01 * 0.01 * range * range, c2 = 0.03 * 0.03 * range * range;
    const Tensor similar =
        (2.0 * mx * my + c1) * (2.0 * xy + c2) / ((mx * mx + my * my + c1) * (xx + yy + c2));
    return std::vector<Tensor>{etude::sum(similar), internal::count_tensor(similar.size())};
  };
  return {"ssim", Joined::kSum, parts, [](std::span<const Tensor> sums) {
            return Numbers{part(sums[0].item<double>(), sums[1].item<double>())};
          }};
}

namespace {

struct Moments {
  Tensor mean, covariance;
};
// From the sums of rows and of their products, and the number of rows.
Moments moments_of(std::span<const Tensor> sums) {
  const auto n = static_cast<double>(sums[2].item<int64_t>());
  ETUDE_REQUIRE(n >= 2, "there are {} rows of features, but a covariance needs two at least", n);
  const Tensor mean = sums[0] / n;
  return {mean, (sums[1] - outer(mean, mean) * n) / (n - 1)};
}

// A symmetric matrix without negative eigenvalues, but for rounding.
Tensor root_of(const Tensor& matrix) {
  const auto [values, vectors] = linalg::eigh(matrix);
  return matmul(vectors * sqrt(maximum(values, 0.0)), vectors, {.transpose_y = true});
}

}  // namespace

Metric frechet_distance() {
  const auto parts = [](const Tensor& predicted, const Tensor& expected) {
    std::vector<Tensor> out;
    for (const Tensor& given : {predicted, expected}) {
      ETUDE_REQUIRE(given.rank() == 2 && given.shape()[1] == expected.shape()[1],
                    "features have shapes {} and {}, but both need [n, features]",
                    predicted.shape().to_string(), expected.shape().to_string());
      const Tensor x = as_double(given);
      out.insert(out.end(), {etude::sum(x, {.axis = 0}), matmul(x, x, {.transpose_x = true}),
                             internal::count_tensor(x.shape()[0])});
    }
    return out;
  };
  return {"frechet_distance", Joined::kSum, parts, [](std::span<const Tensor> sums) {
            const Moments a = moments_of(sums.first(3)), b = moments_of(sums.last(3));
            // The root of a product has the trace of the root of a similar matrix, which is
            // symmetric.
            const Tensor root = root_of(a.covariance);
            const Tensor both = linalg::eigvalsh(matmul(matmul(root, b.covariance), root));
            const Tensor traces = linalg::trace(a.covariance) + linalg::trace(b.covariance) -
                                  2.0 * etude::sum(sqrt(maximum(both, 0.0)));
            return Numbers{(etude::sum(square(a.mean - b.mean)) + traces).item<double>()};
          }};
}

}  // namespace etude::nn::metrics
