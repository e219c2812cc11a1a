// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layer.h"

#include "etude/base/check.h"
#include "etude/base/thread_object.h"

namespace etude::nn {
namespace {

std::string message_of(const std::string& path, const std::string& kind, const Error& cause) {
  return path.empty() ? fmt::format("{}: {}", kind, cause.text())
                      : fmt::format("{} ({}): {}", path, kind, cause.text());
}

}  // namespace

LayerError::LayerError(LayerId layer, std::string kind, const Error& cause, CallSite where)
    : Error(cause.code(), message_of("", kind, cause)),
      layer_(layer),
      kind_(std::move(kind)),
      cause_(cause) {
  cause_.locate(where);
  locate(cause_.where());
  set_cause(cause_.cause());
}

LayerError::LayerError(const LayerError& error, std::string path)
    : Error(error.code(), message_of(path, error.kind_, error.cause_)),
      layer_(error.layer_),
      kind_(error.kind_),
      path_(std::move(path)),
      indices_(error.indices_),
      cause_(error.cause_) {
  locate(cause_.where());
  set_cause(cause_.cause());
}

LayerError LayerError::inside(const char* container, std::size_t index) const {
  const std::string indices = fmt::format("[{}]{}", index, indices_);
  LayerError out(*this, container + indices);
  out.indices_ = indices;
  return out;
}

LayerError LayerError::with_path(std::string path) const { return {*this, std::move(path)}; }

namespace internal {

LayerObserver*& layer_observer() {
  struct Innermost {
    LayerObserver* observer = nullptr;
  };
  return etude::internal::ThreadObject<Innermost>::get().observer;
}

Error restated(const Error& error, const std::string& name, CallSite where) {
  Error out(error.code(), name + ": " + error.text());
  out.locate(where);
  out.set_cause(error.cause());
  return out;
}

void require_input(const Tensor& x, int rank, int64_t features, const Tensor& parameter,
                   const char* parameter_name) {
  const bool rank_fits = rank >= 0 ? x.rank() == rank : x.rank() >= -rank;
  const bool fits = rank_fits && (features < 0 || x.shape()[x.rank() - 1] == features);
  if (fits) return;
  std::string needed = fmt::format("{}{} {}", rank < 0 ? "at least " : "", std::abs(rank),
                                   std::abs(rank) == 1 ? "axis" : "axes");
  if (features >= 0) needed += fmt::format(", the last of size {}", features);
  if (parameter.has_value()) {
    needed += fmt::format(" (its {} has shape {})", parameter_name, parameter.shape().to_string());
  }
  ETUDE_THROW(kInvalidArgument, "the input has shape {}, but the layer needs {}",
              x.shape().to_string(), needed);
}

}  // namespace internal
}  // namespace etude::nn
