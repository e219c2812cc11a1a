// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/metrics/metrics.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/nn/fit/clock.h"
#include "etude/nn/metrics/class_counts.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

// The column of the highest score per row, the first one among equal ones; of a single score
// whether it is above 0.5.
Tensor choices_of(const Tensor& predicted, int64_t& classes) {
  ETUDE_REQUIRE(predicted.rank() == 1 || predicted.rank() == 2,
                "predictions have shape {}, but need [n, classes] or [n]",
                predicted.shape().to_string());
  if (predicted.rank() == 2 && predicted.shape()[1] != 1) {
    classes = predicted.shape()[1];
    ETUDE_REQUIRE(classes > 0, "scores of shape {} have no classes", predicted.shape().to_string());
    return argmax(predicted, {.axis = 1});
  }
  classes = 2;
  return astype(astype(reshape(predicted, {-1}), kFloat64) > 0.5, kInt64);
}

Tensor labels_of(const Tensor& labels, int64_t classes) {
  if (labels.rank() == 2 && labels.shape()[1] == classes) return argmax(labels, {.axis = 1});
  const bool is_column = labels.rank() == 2 && labels.shape()[1] == 1;
  ETUDE_REQUIRE(labels.rank() == 1 || is_column, "labels have shape {}, but need [n] or [n, {}]",
                labels.shape().to_string(), classes);
  const Tensor row = is_column ? reshape(labels, {-1}) : labels;
  return row.dtype() == kInt64 ? row : astype(row, kInt64);
}

void require_as_many(const Tensor& chosen, const Tensor& expected) {
  ETUDE_REQUIRE(chosen.size() == expected.size(), "{} predictions, but {} labels", chosen.size(),
                expected.size());
}

void require_inside(int64_t outside, int64_t classes) {
  ETUDE_REQUIRE_CODE(kOutOfRange, outside == 0, "{} labels are outside [0, {})", outside, classes);
}

}  // namespace

namespace internal {

Tensor confusion_counts(const Tensor& predicted, const Tensor& labels) {
  int64_t classes = 0;
  const Tensor chosen = choices_of(predicted, classes);
  const Tensor expected = labels_of(labels, classes);
  require_as_many(chosen, expected);
  const Tensor is_inside = logical_and(expected >= 0, expected < classes);
  const Tensor cell = where(is_inside, expected * classes + chosen, classes * classes);
  return segment_sum(ones_like(cell), cell, classes * classes + 1);
}

int64_t classes_of(const Tensor& counts) {
  return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(counts.size() - 1))));
}

std::vector<int64_t> read_confusion(const Tensor& counts) {
  std::vector<int64_t> out = counts.to_vector<int64_t>();
  require_inside(out.back(), classes_of(counts));
  out.pop_back();
  return out;
}

}  // namespace internal

void Confusion::require_classes(int64_t classes) {
  if (classes_ == 0) classes_ = classes;
  ETUDE_REQUIRE(classes == classes_, "{} classes, but {} before", classes, classes_);
}

void Confusion::update(const Tensor& predicted, const Tensor& labels, CallSite where) {
  etude::internal::located("Confusion", where, [&] {
    const Tensor counts = internal::confusion_counts(predicted, labels);
    require_classes(internal::classes_of(counts));
    counts_ = counts_.has_value() ? counts_ + counts : counts;
  });
}

std::vector<int64_t> Confusion::counts() const {
  return classes_ == 0 ? std::vector<int64_t>() : internal::read_confusion(counts_);
}

Confusion::ClassCounts Confusion::of_class(int64_t label) const {
  const std::vector<int64_t> all = counts();
  ETUDE_REQUIRE_CODE(kOutOfRange, label >= 0 && label < classes_, "class {} is outside [0, {})",
                     label, classes_);
  ClassCounts out;
  for (int64_t k = 0; k < classes_; ++k) {
    out.labelled += static_cast<double>(all[static_cast<std::size_t>(label * classes_ + k)]);
    out.predicted += static_cast<double>(all[static_cast<std::size_t>(k * classes_ + label)]);
  }
  out.right = static_cast<double>(all[static_cast<std::size_t>(label * (classes_ + 1))]);
  return out;
}

int64_t Confusion::count(int64_t label, int64_t predicted) const {
  return counts().at(static_cast<std::size_t>(label * classes_ + predicted));
}
int64_t Confusion::samples() const {
  int64_t sum = 0;
  for (const int64_t n : counts()) sum += n;
  return sum;
}
double Confusion::accuracy() const {
  const std::vector<int64_t> all = counts();
  double right = 0, sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += static_cast<double>(all[i]);
    if (i % static_cast<std::size_t>(classes_ + 1) == 0) right += static_cast<double>(all[i]);
  }
  return internal::part(right, sum);
}
double Confusion::precision(int64_t label) const {
  const ClassCounts c = of_class(label);
  return internal::part(c.right, c.predicted);
}
double Confusion::recall(int64_t label) const {
  const ClassCounts c = of_class(label);
  return internal::part(c.right, c.labelled);
}
double Confusion::f1(int64_t label) const {
  const ClassCounts c = of_class(label);
  return internal::part(2 * c.right, c.labelled + c.predicted);
}

void Confusion::merge(const Confusion& other) {
  if (other.classes_ == 0) return;
  require_classes(other.classes_);
  counts_ = counts_.has_value() ? counts_ + other.counts_ : other.counts_;
}

std::string Confusion::to_string(std::span<const std::string_view> names) const {
  // Rows carry number and name, columns the number: a table of ten classes fits a terminal.
  const auto label_text = [&](int64_t k) {
    const auto i = static_cast<std::size_t>(k);
    return i < names.size() ? fmt::format("{:>2} {}", k, names[i]) : fmt::format("{:>2}", k);
  };
  const std::vector<int64_t> all = counts();
  std::size_t width = 6;
  for (int64_t k = 0; k < classes_; ++k) width = std::max(width, label_text(k).size() + 1);
  std::string text = fmt::format("{:<{}}", "label", width);
  for (int64_t k = 0; k < classes_; ++k) text += fmt::format("{:>6}", k);
  text += "  recall\n";
  for (int64_t label = 0; label < classes_; ++label) {
    text += fmt::format("{:<{}}", label_text(label), width);
    for (int64_t k = 0; k < classes_; ++k) {
      const int64_t n = all[static_cast<std::size_t>(label * classes_ + k)];
      text += n > 0 ? fmt::format("{:>6}", n) : fmt::format("{:>6}", ".");
    }
    text += fmt::format("  {:.3f}\n", recall(label));
  }
  return text;
}

double Throughput::result() const {
  return static_cast<double>(samples_) / std::max(internal::now_seconds() - started_, 1e-9);
}
void Throughput::reset() {
  samples_ = 0;
  started_ = internal::now_seconds();
}

// Its result is read at once, and fit needs it for each batch: rows are counted here and not by
// calls.
double accuracy(const Tensor& predicted, const Tensor& labels, CallSite where) {
  return etude::internal::located("accuracy", where, [&] {
    int64_t classes = 0, right = 0, outside = 0;
    const Tensor chosen = choices_of(predicted, classes), expected = labels_of(labels, classes);
    require_as_many(chosen, expected);
    const std::vector<int64_t> choice = chosen.to_vector<int64_t>();
    const std::vector<int64_t> label = expected.to_vector<int64_t>();
    for (std::size_t i = 0; i < label.size(); ++i) {
      right += label[i] == choice[i] ? 1 : 0;
      outside += label[i] >= 0 && label[i] < classes ? 0 : 1;
    }
    require_inside(outside, classes);
    return internal::part(static_cast<double>(right), static_cast<double>(label.size()));
  });
}

}  // namespace etude::nn
