// SPDX-License-Identifier: Apache-2.0
// Values that are updated batch by batch, read, merged and reset: a mean, counts of classes, and
// samples per second. metric.h has the metrics that fit and evaluate take by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// The mean of numbers, each with a weight such as its batch size.
class Mean {
 public:
  void update(double value, double weight = 1) {
    sum_ += value * weight;
    weight_ += weight;
  }
  double result() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  void reset() { *this = {}; }
  void merge(const Mean& other) {
    sum_ += other.sum_;
    weight_ += other.weight_;
  }

 private:
  double sum_ = 0, weight_ = 0;
};

// A confusion matrix: counts of predicted classes by label, and scores computed from them.
class Confusion {
 public:
  // shapes: predicted are scores of any dtype, [n, classes], or [n], where a score above 0.5 means
  // class 1; labels are integers [n], or one-hot [n, classes].
  //
  // Counts with tensor calls. No element is read before the functions below are called.
  //
  // throws: kInvalidArgument for shapes that do not fit. For labels out of range the functions
  //         below throw kOutOfRange.
  void update(const Tensor& predicted, const Tensor& labels, CallSite where = CallSite::here());

  double accuracy() const;
  int64_t samples() const;
  int64_t classes() const { return classes_; }
  // The number of samples of class `label` that were predicted as class `predicted`.
  int64_t count(int64_t label, int64_t predicted) const;
  // The precision of a class: the fraction of its predictions that are right. Recall: the fraction
  // of its samples that are found.
  double precision(int64_t label) const;
  double recall(int64_t label) const;
  double f1(int64_t label) const;
  void reset() { *this = {}; }
  // throws: kInvalidArgument for another number of classes.
  void merge(const Confusion& other);

  // A table, one row per label; `names` may be empty.
  std::string to_string(std::span<const std::string_view> names = {}) const;

 private:
  struct ClassCounts {
    double right = 0, labelled = 0, predicted = 0;
  };
  void require_classes(int64_t classes);
  std::vector<int64_t> counts() const;
  ClassCounts of_class(int64_t label) const;

  int64_t classes_ = 0;
  Tensor counts_;  // [label, predicted], flat; last the labels out of range
};

// Samples per second since construction or reset().
class Throughput {
 public:
  Throughput() { reset(); }
  void update(int64_t samples) { samples_ += samples; }
  double result() const;
  void reset();

 private:
  int64_t samples_ = 0;
  double started_ = 0;  // seconds of a steady clock
};

// The fraction of rows in which the label has the highest score. shapes and throws: as
// Confusion::update.
double accuracy(const Tensor& predicted, const Tensor& labels, CallSite where = CallSite::here());

}  // namespace nn
}  // namespace etude
