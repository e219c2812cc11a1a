// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layer.h"

#include "etude/base/check.h"

namespace etude::nn::detail {

LayerObserver*& layer_observer() {
  thread_local LayerObserver* observer = nullptr;
  return observer;
}

Tensor observed(const void* layer, const char* kind, Tensor result) {
  if (LayerObserver* observer = layer_observer()) observer->called(layer, kind, result.shape());
  return result;
}

void require_input(const char* layer, const Tensor& x, int rank, std::int64_t features,
                   const Tensor& parameter, const char* parameter_name) {
  const bool rank_fits = rank >= 0 ? x.rank() == rank : x.rank() >= -rank;
  const bool fits = rank_fits && (features < 0 || x.shape()[x.rank() - 1] == features);
  if (fits) return;
  std::string needed = fmt::format("{}{} axes", rank < 0 ? "at least " : "", std::abs(rank));
  if (features >= 0) needed += fmt::format(", the last of size {}", features);
  if (parameter.has_value()) {
    needed += fmt::format(" (its {} has shape {})", parameter_name, parameter.shape().to_string());
  }
  ETUDE_THROW(kInvalidArgument, "{}: the input has shape {}, but the layer needs {}", layer,
              x.shape().to_string(), needed);
}

}  // namespace etude::nn::detail
