// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "etude/kinds/table.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/nn/metrics/metrics.h"

namespace etude::kinds {
namespace {

namespace metrics = nn::metrics;
using nn::Metric;
using N = NoOptions;

template <Metric (*metric)()>
void metric_of(Rows& rows, const char* name) {
  rows.function(name, [](const N&, CallSite) { return metric(); });
}
template <Metric (*metric)(const metrics::ScoreOptions&, CallSite)>
void score(Rows& rows, const char* name) {
  rows.function<metrics::ScoreOptions>(name, [](const metrics::ScoreOptions& options,
                                                CallSite where) { return metric(options, where); });
}
// A metric of one parameter.
template <class T, Metric (*metric)(T)>
void of(Rows& rows, const char* name, Positional parameter, Values sample = {}) {
  rows.function<N, T>(
      name, [](const N&, CallSite, T value) { return metric(value); }, {std::move(parameter)},
      std::move(sample));
}

void add_classes(Rows rows) {
  metric_of<metrics::accuracy>(rows, "nn.metrics.accuracy");
  of<int64_t, metrics::top_k>(rows, "nn.metrics.top_k", "k", {3});
  metric_of<metrics::matthews>(rows, "nn.metrics.matthews");
  score<metrics::precision>(rows, "nn.metrics.precision");
  score<metrics::recall>(rows, "nn.metrics.recall");
  score<metrics::f1>(rows, "nn.metrics.f1");
  score<metrics::intersection_over_union>(rows, "nn.metrics.intersection_over_union");
  of<double, metrics::binary_accuracy>(rows, "nn.metrics.binary_accuracy", {"threshold", 0.5});
  metric_of<metrics::roc_auc>(rows, "nn.metrics.roc_auc");
  metric_of<metrics::pr_auc>(rows, "nn.metrics.pr_auc");
  metric_of<metrics::average_precision>(rows, "nn.metrics.average_precision");
  rows.function<N, int64_t>("nn.metrics.calibration_error",
                            [](const N&, CallSite where, int64_t bins) {
                              return metrics::calibration_error(bins, where);
                            },
                            {{"bins", 15}});
}

void add_numbers(Rows rows) {
  metric_of<metrics::mean_squared_error>(rows, "nn.metrics.mean_squared_error");
  metric_of<metrics::mean_absolute_error>(rows, "nn.metrics.mean_absolute_error");
  metric_of<metrics::root_mean_squared_error>(rows, "nn.metrics.root_mean_squared_error");
  metric_of<metrics::r2>(rows, "nn.metrics.r2");
  of<double, metrics::psnr>(rows, "nn.metrics.psnr", {"range", 1});
  metric_of<metrics::mean>(rows, "nn.metrics.mean");
  metric_of<metrics::sum>(rows, "nn.metrics.sum");
  metric_of<metrics::max>(rows, "nn.metrics.max");
  of<std::optional<int64_t>, metrics::perplexity>(rows, "nn.metrics.perplexity",
                                                  {"ignore_index", Value()});
  of<std::optional<int64_t>, metrics::bits_per_character>(rows, "nn.metrics.bits_per_character",
                                                          {"ignore_index", Value()});
  of<int64_t, metrics::edit_distance>(rows, "nn.metrics.edit_distance", {"end", 0});
  rows.function<N, int64_t, int64_t>("nn.metrics.bleu",
                                     [](const N&, CallSite where, int64_t order, int64_t end) {
                                       return metrics::bleu(order, end, where);
                                     },
                                     {{"order", 4}, {"end", 0}});
  of<double, metrics::ssim>(rows, "nn.metrics.ssim", {"range", 1});
  metric_of<metrics::frechet_distance>(rows, "nn.metrics.frechet_distance");
}

}  // namespace

void add_metrics(Table& table) {
  Rows rows(table, Group::kMetric);
  add_classes(rows);
  add_numbers(rows);
  rows.add<nn::Mean>("nn.Mean");
  rows.add<nn::Confusion>("nn.Confusion");
  rows.add<nn::Throughput>("nn.Throughput");
}

}  // namespace etude::kinds
