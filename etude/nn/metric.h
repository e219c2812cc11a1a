// SPDX-License-Identifier: Apache-2.0
// A metric: a value that takes predictions and what was expected batch by batch, and gives numbers
// at the end. fit and evaluate take any set of them by name; metric_kinds.h has the usual ones.
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

// What becomes of the parts that batches give: their sum by element, the largest by element, or all
// of them in order.
enum class Joined : uint8_t { kSum, kMax, kAll };

// A value: a copy goes on by itself. An update computes tensors and reads none, so it can be
// recorded lazily; only results look at elements. threads: thread-compatible.
class Metric {
 public:
  // What a batch gives: tensors of the same number each time, in order.
  using Parts = std::function<std::vector<Tensor>(const Tensor& predicted, const Tensor& expected)>;
  // The results of all joined parts: as many as a batch gives, or so many per batch. Never none.
  using Result = std::function<std::vector<double>(std::span<const Tensor>)>;

  // A metric of your own: nn::Metric("bias", nn::Joined::kSum,
  //     [](const Tensor& p, const Tensor& e) { return std::vector{sum(p - e), Tensor(p.size())}; },
  //     [](std::span<const Tensor> parts) { ... });
  Metric(std::string name, Joined joined, Parts parts, Result result);

  const std::string& name() const { return definition_->name; }
  // throws: what the metric says of shapes, with its name and the caller's line.
  void update(const Tensor& predicted, const Tensor& expected, CallSite where = CallSite::here());
  // The number, or the first of those that there are; NaN before the first update.
  // throws: what only elements show, such as a label outside.
  double result(CallSite where = CallSite::here()) const;
  // All of them: those of classes where a metric was asked for them.
  std::vector<double> results(CallSite where = CallSite::here()) const;
  void reset() { parts_.clear(); }
  // Goes on as if it had seen what the other saw, after its own.
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
