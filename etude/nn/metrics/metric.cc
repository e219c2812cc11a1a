// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/metrics/metric.h"

#include <limits>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/ops.h"

namespace etude::nn {

using etude::internal::located;

Metric::Metric(std::string name, Joined joined, Parts parts, Result result)
    : definition_(std::make_shared<Definition>(
          Definition{std::move(name), joined, std::move(parts), std::move(result)})) {}

void Metric::join(std::vector<Tensor> parts) {
  if (parts_.empty() || definition_->joined == Joined::kAll) {
    for (Tensor& part : parts) parts_.push_back(std::move(part));
    return;
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    ETUDE_REQUIRE(parts[i].shape() == parts_[i].shape(),
                  "a part of this batch has shape {}, but {} in earlier batches",
                  parts[i].shape().to_string(), parts_[i].shape().to_string());
    parts_[i] =
        definition_->joined == Joined::kSum ? parts_[i] + parts[i] : maximum(parts_[i], parts[i]);
  }
}

void Metric::update(const Tensor& predicted, const Tensor& expected, CallSite where) {
  located(name(), where, [&] { join(definition_->parts(predicted, expected)); });
}

std::vector<double> Metric::results(CallSite where) const {
  if (parts_.empty()) return {std::numeric_limits<double>::quiet_NaN()};
  return located(name(), where, [&] { return definition_->result(parts_); });
}

double Metric::result(CallSite where) const { return results(where)[0]; }

void Metric::merge(const Metric& other, CallSite where) {
  located(name(), where, [&] {
    ETUDE_REQUIRE(name() == other.name(), "cannot merge with a metric '{}'", other.name());
    join(other.parts_);
  });
}

}  // namespace etude::nn
