// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/adaptive_softmax.h"

#include <algorithm>
#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

Tensor columns(const Tensor& x, int64_t begin, int64_t end) {
  return slice(x, {0, begin}, {x.shape()[0], end});
}

Tensor cluster_log_probabilities(const AdaptiveSoftmax::Cluster& cluster, const Tensor& x) {
  return log_softmax(matmul(matmul(x, cluster.down), cluster.up));
}

// Element columns[i] of each row i, [n].
Tensor chosen(const Tensor& x, const std::vector<int64_t>& columns) {
  const Tensor index = expand_dims(Tensor(columns), {1});
  return squeeze(take_along_axis(x, index, {.axis = 1}), {1});
}

}  // namespace

AdaptiveSoftmax::AdaptiveSoftmax(int64_t features, int64_t classes, std::vector<int64_t> cutoffs,
                                 const AdaptiveSoftmaxOptions& options, CallSite where)
    : bounds_(std::move(cutoffs)) {
  etude::internal::check_options("AdaptiveSoftmax", options, where);
  etude::internal::located("AdaptiveSoftmax", where, [&] {
    ETUDE_REQUIRE(features >= 1 && classes >= 1,
                  "{} features and {} classes; both must be at least 1", features, classes);
    ETUDE_REQUIRE(!bounds_.empty(), "there are no cutoffs; needed is one, or more that rise");
    int64_t before = 0;
    for (const int64_t cutoff : bounds_) {
      ETUDE_REQUIRE(cutoff > before && cutoff < classes,
                    "the cutoffs are [{}], but must rise between 0 and the number of classes, {}",
                    fmt::join(bounds_, ","), classes);
      before = cutoff;
    }
    const auto count = static_cast<int64_t>(bounds_.size());
    head = options.weight_init({features, bounds_[0] + count});
    bounds_.push_back(classes);
    double narrow = static_cast<double>(features);
    for (std::size_t i = 0; i + 1 < bounds_.size(); ++i) {
      narrow /= options.divisor;
      const auto size = std::max<int64_t>(static_cast<int64_t>(std::floor(narrow)), 1);
      clusters.push_back({options.weight_init({features, size}),
                          options.weight_init({size, bounds_[i + 1] - bounds_[i]})});
    }
  });
}

Tensor AdaptiveSoftmax::head_log_probabilities(const Tensor& x) const {
  internal::require_input(x, 2, head.shape()[0], head, "head");
  return log_softmax(matmul(x, head));
}

Tensor AdaptiveSoftmax::operator()(const Tensor& x, CallSite where) const {
  const int64_t flops = 2 * head.shape()[0];
  return internal::run_layer(this, "AdaptiveSoftmax", where, flops, [&] {
    const Tensor first = head_log_probabilities(x);
    std::vector<Tensor> parts = {columns(first, 0, bounds_[0])};
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      const int64_t at = bounds_[0] + static_cast<int64_t>(i);
      parts.push_back(columns(first, at, at + 1) + cluster_log_probabilities(clusters[i], x));
    }
    return concat(parts, {.axis = 1});
  });
}

Tensor AdaptiveSoftmax::loss(const Tensor& x, const Tensor& labels, CallSite where) const {
  return internal::run_layer(this, "AdaptiveSoftmax", where, 0, [&] {
    const Tensor first = head_log_probabilities(x);
    ETUDE_REQUIRE(
        is_integer(labels.dtype()) && labels.shape() == Shape{x.shape()[0]} && labels.size() > 0,
        "the labels are {}, but the input of shape {} needs integers, one for each row",
        labels.type()->to_string(), x.shape().to_string());
    std::vector<int64_t> ids = labels.to_vector<int64_t>();
    std::vector<std::vector<int64_t>> rows(clusters.size()), inside(clusters.size());
    for (std::size_t row = 0; row < ids.size(); ++row) {
      const int64_t id = ids[row];
      ETUDE_REQUIRE_CODE(kOutOfRange, id >= 0 && id < bounds_.back(),
                         "label {} of row {} is outside [0, {})", id, row, bounds_.back());
      if (id < bounds_[0]) continue;
      const auto cluster = static_cast<std::size_t>(
          std::upper_bound(bounds_.begin(), bounds_.end(), id) - bounds_.begin() - 1);
      rows[cluster].push_back(static_cast<int64_t>(row));
      inside[cluster].push_back(id - bounds_[cluster]);
      ids[row] = bounds_[0] + static_cast<int64_t>(cluster);
    }
    Tensor total = sum(chosen(first, ids));
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      if (rows[i].empty()) continue;
      const Tensor own = take(x, Tensor(rows[i]));
      total = total + sum(chosen(cluster_log_probabilities(clusters[i], own), inside[i]));
    }
    return total / -static_cast<double>(ids.size());
  });
}

}  // namespace etude::nn
