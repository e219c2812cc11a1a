// SPDX-License-Identifier: Apache-2.0
// A summary of a model: its layers in call order, with result shapes, numbers of parameters, bytes
// and floating-point operations. The model runs on an abstract tensor, so nothing is computed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "etude/core/call/call_scope.h"
#include "etude/core/tensor.h"
#include "etude/nn/parts.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct LayerSummary {
  std::string path;  // "conv1", "layers/0"; "" for the model itself
  std::string kind;  // "Conv2D"
  Shape result;
  int64_t parameters = 0;
  int64_t bytes = 0;
  int64_t flops = 0;
};
struct Summary {
  std::vector<LayerSummary> layers;
  Shape result;
  int64_t parameters = 0;  // of the whole model, including those outside of layers
  int64_t bytes = 0;
  // The floating-point operations of the forward pass for this input: 2 for each multiply-add in
  // Dense and convolutions, 2 for each element in normalisations, 0 for other ops.
  int64_t flops = 0;

  // A table with one line per layer, then the totals.
  std::string to_string() const;
};

namespace internal {

// While this object is alive, calls of this thread run on abstract tensors, and calls of layers are
// recorded.
class SummaryScope {
 public:
  SummaryScope();
  SummaryScope(const SummaryScope&) = delete;
  SummaryScope& operator=(const SummaryScope&) = delete;
  ~SummaryScope();
  // throws: kInvalidArgument for a shape with an unknown size.
  Tensor input(const TensorSpec& spec) const;
  Summary finish(const std::vector<Part>& parts, const Tensor& result) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace internal

// The layers that model(x) calls. `input` is the shape of x, with the batch axis, and its dtype:
// summary(model, {1, 28, 28, 1}), summary(embedding, {{8, 20}, kInt32}).
//
// throws: the errors of the model for such an input. An error of a layer names the path of the
//         layer. Each error names the op and the user's line.
template <class Model>
Summary summary(const Model& model, const TensorSpec& input, CallSite where = CallSite::here()) {
  return etude::internal::located("", where, [&] {
    const internal::SummaryScope scope;
    return scope.finish(internal::find_parts(model),
                        internal::call_model(model, scope.input(input), where));
  });
}
template <class Model>
Summary summary(const Model& model, const Shape& input_shape, CallSite where = CallSite::here()) {
  return summary(model, TensorSpec{input_shape}, where);
}

// The summary of the model that make() returns. The parameters are abstract tensors too, so even a
// large model takes no memory. Initialisers that compute on the host, such as orthogonal, cannot
// run on abstract tensors.
//
//   nn::summary_of([] { return nn::models::vgg(16); }, {1, 224, 224, 3}).parameters;
template <class Make>
Summary summary_of(const Make& make, const TensorSpec& input, CallSite where = CallSite::here()) {
  return etude::internal::located("", where, [&] {
    const internal::SummaryScope scope;
    const auto model = make();
    return scope.finish(internal::find_parts(model),
                        internal::call_model(model, scope.input(input), where));
  });
}
template <class Make>
Summary summary_of(const Make& make, const Shape& input_shape, CallSite where = CallSite::here()) {
  return summary_of(make, TensorSpec{input_shape}, where);
}

}  // namespace nn
}  // namespace etude
