// SPDX-License-Identifier: Apache-2.0
// A metric: a value that takes predictions and expected values batch by batch, and returns numbers
// at the end. fit and evaluate take metrics by name; metric_kinds.h has the usual metrics.
//
//   const nn::Metrics metrics = {{"top5", nn::metrics::top_k(5)}, {"auc", nn::metrics::roc_auc()}};
//   nn::evaluate(model, batches, loss, metrics).metrics.at("top5");
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// How the parts of batches are combined: by elementwise sum, by elementwise maximum, or not at all
// (all parts are kept, in order).
enum class Joined : uint8_t { kSum, kMax, kAll };

// A value: copies are independent. An update computes tensors but reads no elements, so it can be
// recorded lazily. Only results read elements. threads: thread-compatible.
class Metric {
 public:
  // The parts of a batch: the same number of tensors for every batch, in order.
  using Parts = std::function<std::vector<Tensor>(const Tensor& predicted, const Tensor& expected)>;
  // Computes the results from the combined parts. There are as many tensors as a batch has parts;
  // with kAll, as many for each batch. Never called without parts.
  using Result = std::function<std::vector<double>(std::span<const Tensor>)>;

  // A metric of your own: nn::Metric("bias", nn::Joined::kSum,
  //     [](const Tensor& p, const Tensor& e) { return std::vector{sum(p - e), Tensor(p.size())}; },
  //     [](std::span<const Tensor> parts) { ... });
  Metric(std::string name, Joined joined, Parts parts, Result result);

  const std::string& name() const { return definition_->name; }
  // throws: the metric's errors about shapes, with its name and the caller's line.
  void update(const Tensor& predicted, const Tensor& expected, CallSite where = CallSite::here());
  // Returns the number, or the first of several; NaN before the first update.
  // throws: errors that depend on elements, such as a label out of range.
  double result(CallSite where = CallSite::here()) const;
  // Returns all numbers, for example one number per class.
  std::vector<double> results(CallSite where = CallSite::here()) const;
  void reset() { parts_.clear(); }
  // Adds the updates of `other` after its own.
  // throws: kInvalidArgument for another kind of metric.
  void merge(const Metric& other, CallSite where = CallSite::here());

 private:
  struct Definition {
    std::string name;
    Joined joined;
    Parts parts;
    Result result;
  };
  void join(std::vector<Tensor> parts);

  std::shared_ptr<const Definition> definition_;
  std::vector<Tensor> parts_;
};

using Metrics = std::map<std::string, Metric>;

}  // namespace nn
}  // namespace etude
