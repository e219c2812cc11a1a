// SPDX-License-Identifier: Apache-2.0
// AdaptiveSoftmax: the output layer of models with very many classes, if few are frequent. For up
// to some thousand classes use Dense and softmax_cross_entropy.
#pragma once

#include <cstdint>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct AdaptiveSoftmaxOptions {
  double divisor = 4;  // each cluster's projection is narrower by this factor
  Initializer weight_init = glorot_uniform;

  static constexpr void ranges(const auto& option) {
    option("divisor", &AdaptiveSoftmaxOptions::divisor, at_least(1));
  }
};

// Log probabilities of classes that are numbered by frequency, the most frequent first: E. Grave et
// al., "Efficient softmax approximation for GPUs" (2017). The head has one output for each class
// below cutoffs[0] and one for each cluster. Cluster i holds the classes [cutoffs[i], cutoffs[i +
// 1]); the last cluster holds the classes up to `classes`. A cluster computes its scores after a
// projection to features / divisor^(i + 1) numbers. shapes: x [n, features], result [n, classes];
// head [features, cutoffs[0] + clusters].
//
//   nn::AdaptiveSoftmax words(512, 50000, {2000, 10000});
//   const Tensor loss = words.loss(hidden, next_words);
//
// throws (construction): kInvalidArgument for sizes below 1, and for cutoffs that do not rise
// between 0 and `classes`. throws (call): kInvalidArgument for an input of another size.
class AdaptiveSoftmax {
 public:
  struct Cluster {
    Tensor down;  // [features, narrow]
    Tensor up;    // [narrow, classes of the cluster]
  };

  AdaptiveSoftmax(int64_t features, int64_t classes, std::vector<int64_t> cutoffs,
                  const AdaptiveSoftmaxOptions& options = {}, CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // Returns the mean of -log of the probabilities of `labels`, integers [n]. This is nll_loss of
  // all log probabilities, but each cluster is computed only for the rows with labels in it. It
  // reads the labels, so it cannot be part of a staged function.
  // throws: kOutOfRange for labels out of range; kInvalidArgument for another number of labels, or
  // for no labels.
  Tensor loss(const Tensor& x, const Tensor& labels, CallSite where = CallSite::here()) const;

  Tensor head;
  std::vector<Cluster> clusters;
  ETUDE_FIELDS(AdaptiveSoftmax, head, clusters);
  ETUDE_HOST_VALUES(bounds_);

 private:
  Tensor head_log_probabilities(const Tensor& x) const;

  std::vector<int64_t> bounds_;  // the cutoffs, then the number of classes
};

}  // namespace nn
}  // namespace etude
