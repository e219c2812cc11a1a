// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/metrics.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call_scope.h"

namespace etude::nn {
namespace {

struct Choices {
  std::int64_t classes = 0;
  std::vector<std::int64_t> of_row;
};

// The column of the highest score per row; the first one among equal ones.
Choices highest(const Tensor& scores) {
  const std::int64_t rows = scores.shape()[0], classes = scores.shape()[1];
  ETUDE_REQUIRE(classes > 0, "scores of shape {} have no classes", scores.shape().to_string());
  const std::vector<double> values = scores.to_vector<double>();
  Choices out{classes, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = values.begin() + row * classes;
    out.of_row.push_back(std::max_element(begin, begin + classes) - begin);
  }
  return out;
}

Choices choices_of(const Tensor& predicted) {
  ETUDE_REQUIRE(predicted.rank() == 1 || predicted.rank() == 2,
                "predictions have shape {}, but need [n, classes] or [n]",
                predicted.shape().to_string());
  if (predicted.rank() == 2 && predicted.shape()[1] > 1) return highest(predicted);
  Choices out{2, {}};
  for (const double score : predicted.to_vector<double>())
    out.of_row.push_back(score > 0.5 ? 1 : 0);
  return out;
}

std::vector<std::int64_t> labels_of(const Tensor& labels, std::int64_t classes) {
  if (labels.rank() == 2 && labels.shape()[1] == classes) return highest(labels).of_row;
  ETUDE_REQUIRE(labels.rank() == 1, "labels have shape {}, but need [n] or [n, {}]",
                labels.shape().to_string(), classes);
  return labels.to_vector<std::int64_t>();
}

double part(std::int64_t of, std::int64_t all) {
  return all > 0 ? static_cast<double>(of) / static_cast<double>(all) : 0;
}

}  // namespace

void Confusion::require_classes(std::int64_t classes) {
  if (classes_ == 0) {
    classes_ = classes;
    counts_.assign(static_cast<std::size_t>(classes * classes), 0);
  }
  ETUDE_REQUIRE(classes == classes_, "{} classes, but {} before", classes, classes_);
}

void Confusion::update(const Tensor& predicted, const Tensor& labels, CallSite where) {
  etude::internal::located("Confusion", where, [&] {
    const Choices choices = choices_of(predicted);
    const std::vector<std::int64_t> expected = labels_of(labels, choices.classes);
    ETUDE_REQUIRE(choices.of_row.size() == expected.size(), "{} predictions, but {} labels",
                  choices.of_row.size(), expected.size());
    require_classes(choices.classes);
    for (const std::int64_t label : expected) {
      ETUDE_REQUIRE_CODE(kOutOfRange, label >= 0 && label < classes_, "label {} is outside [0, {})",
                         label, classes_);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ++counts_[static_cast<std::size_t>(expected[i] * classes_ + choices.of_row[i])];
    }
  });
}

std::int64_t Confusion::count(std::int64_t label, std::int64_t predicted) const {
  return counts_.at(static_cast<std::size_t>(label * classes_ + predicted));
}
std::int64_t Confusion::row(std::int64_t label) const {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < classes_; ++k) sum += count(label, k);
  return sum;
}
std::int64_t Confusion::column(std::int64_t predicted) const {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < classes_; ++k) sum += count(k, predicted);
  return sum;
}

std::int64_t Confusion::samples() const {
  std::int64_t sum = 0;
  for (const std::int64_t n : counts_) sum += n;
  return sum;
}
double Confusion::accuracy() const {
  std::int64_t right = 0;
  for (std::int64_t k = 0; k < classes_; ++k) right += count(k, k);
  return part(right, samples());
}
double Confusion::precision(std::int64_t label) const {
  return part(count(label, label), column(label));
}
double Confusion::recall(std::int64_t label) const { return part(count(label, label), row(label)); }
double Confusion::f1(std::int64_t label) const {
  return part(2 * count(label, label), row(label) + column(label));
}

void Confusion::merge(const Confusion& other) {
  if (other.classes_ == 0) return;
  require_classes(other.classes_);
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::string Confusion::to_string(std::span<const std::string_view> names) const {
  // Rows carry number and name, columns the number: a table of ten classes fits a terminal.
  const auto label_text = [&](std::int64_t k) {
    const auto i = static_cast<std::size_t>(k);
    return i < names.size() ? fmt::format("{:>2} {}", k, names[i]) : fmt::format("{:>2}", k);
  };
  std::size_t width = 6;
  for (std::int64_t k = 0; k < classes_; ++k) width = std::max(width, label_text(k).size() + 1);
  std::string text = fmt::format("{:<{}}", "label", width);
  for (std::int64_t k = 0; k < classes_; ++k) text += fmt::format("{:>6}", k);
  text += "  recall\n";
  for (std::int64_t label = 0; label < classes_; ++label) {
    text += fmt::format("{:<{}}", label_text(label), width);
    for (std::int64_t k = 0; k < classes_; ++k) {
      const std::int64_t n = count(label, k);
      text += n > 0 ? fmt::format("{:>6}", n) : fmt::format("{:>6}", ".");
    }
    text += fmt::format("  {:.3f}\n", recall(label));
  }
  return text;
}

double accuracy(const Tensor& predicted, const Tensor& labels, CallSite where) {
  Confusion confusion;
  confusion.update(predicted, labels, where);
  return confusion.accuracy();
}

}  // namespace etude::nn
