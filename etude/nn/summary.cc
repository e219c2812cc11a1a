// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/summary.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/internal/infer.h"

namespace etude::nn {
namespace {

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace

std::string Summary::to_string() const {
  std::size_t name = 5, kind = 4, shape = 6;
  for (const LayerSummary& layer : layers) {
    name = std::max(name, layer.path.size());
    kind = std::max(kind, layer.kind.size());
    shape = std::max(shape, layer.result.to_string().size());
  }
  constexpr const char* kRow = "{:<{}}  {:<{}}  {:<{}}  {:>11}  {:>11}  {:>13}\n";
  std::string text = fmt::format(kRow, "layer", name, "kind", kind, "result", shape, "parameters",
                                 "bytes", "flops");
  for (const LayerSummary& layer : layers) {
    text += fmt::format(kRow, layer.path, name, layer.kind, kind, layer.result.to_string(), shape,
                        layer.parameters > 0 ? grouped(layer.parameters) : "-",
                        layer.bytes > 0 ? grouped(layer.bytes) : "-",
                        layer.flops > 0 ? grouped(layer.flops) : "-");
  }
  return text + fmt::format(kRow, "total", name, "", kind, result.to_string(), shape,
                            grouped(parameters), grouped(bytes), grouped(flops));
}

namespace internal {

const Part* part_of(const std::vector<Part>& parts, const LayerId& layer) {
  const Part* at_address = nullptr;
  for (const Part& part : parts) {
    if (part.id == layer) return &part;
    if (part.id.address == layer.address) at_address = &part;
  }
  return at_address;
}

struct SummaryScope::State final : LayerObserver {
  struct Call {
    LayerId layer;
    const char* kind;
    Shape result;
    int64_t flops;
  };

  void called(const LayerId& layer, const char* kind, const Shape& result, int64_t flops) override {
    calls.push_back({layer, kind, result, flops});
  }

  std::vector<Call> calls;
  LayerObserver* outer = layer_observer();
  // On the stack, as contexts of users are: so its errors get op and line.
  etude::internal::TypeContext types;
};

SummaryScope::SummaryScope() : state_(std::make_unique<State>()) {
  layer_observer() = state_.get();
  ContextStack::push(state_->types);
}
SummaryScope::~SummaryScope() {
  ContextStack::remove(state_->types);
  layer_observer() = state_->outer;
}

Tensor SummaryScope::input(const TensorSpec& spec) const {
  ETUDE_REQUIRE(spec.shape.is_known(), "summary: the input shape {} has an unknown size",
                spec.shape.to_string());
  return etude::internal::make_abstract(intern_type(spec.dtype, spec.shape));
}

Summary SummaryScope::finish(const std::vector<Part>& parts, const Tensor& result) const {
  Summary out;
  out.result = result.shape();
  if (!parts.empty()) {
    out.parameters = parts.front().parameters;
    out.bytes = parts.front().bytes;
  }
  for (const State::Call& call : state_->calls) {
    LayerSummary layer{.path = "?", .kind = call.kind, .result = call.result};
    layer.flops = call.flops;
    out.flops += call.flops;
    if (const Part* part = part_of(parts, call.layer)) {
      layer.path = part->path;
      layer.parameters = part->parameters;
      layer.bytes = part->bytes;
    }
    out.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace internal
}  // namespace etude::nn
