// SPDX-License-Identifier: Apache-2.0
// The parts of a model by path and identity, found by reflection. Used by summaries, and to name
// the layer of an error. For parameters only, use for_each_leaf of base/structure.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/tensor.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace internal {

// A part of the model that may be a layer.
struct Part {
  std::string path;  // "" for the model itself
  LayerId id;
  int64_t parameters, bytes;
};

template <class T>
void count_parameters(const T& x, int64_t& parameters, int64_t& bytes) {
  if constexpr (HasLeaf<T, Tensor>::value) {
    for_each_leaf<Tensor>(x, [&](const Tensor& leaf) {
      parameters += leaf.has_value() ? leaf.size() : 0;
      bytes += leaf.has_value() ? leaf.nbytes() : 0;
    });
  }
}

// Returns the structs of a model. A struct comes before its members.
template <class Model>
std::vector<Part> find_parts(const Model& model) {
  std::vector<Part> parts;
  for_each_struct(model, [&](const std::string& path, const auto& x) {
    Part& part = parts.emplace_back(Part{path, LayerId::of(x), 0, 0});
    count_parameters(x, part.parameters, part.bytes);
    if constexpr (requires { x.find_structs(); }) {  // a Layer: the structs inside
      for (Part& inner : x.find_structs()) {
        if (!path.empty()) inner.path = inner.path.empty() ? path : path + "/" + inner.path;
        parts.push_back(std::move(inner));
      }
    }
  });
  return parts;
}

// Returns the part with the address and type of the layer. If only the address of a part matches,
// as for a base class, returns the innermost part at this address. Returns null if there is none.
const Part* part_of(const std::vector<Part>& parts, const LayerId& layer);

// Calls model(x) at `where`. throws: the errors of layers, with the path of the layer in `model`.
template <class Model>
Tensor call_model(const Model& model, const Tensor& x, CallSite where) {
  try {
    return call_layer(model, x, where);
  } catch (const LayerError& error) {
    const std::vector<Part> parts = find_parts(model);
    const Part* part = part_of(parts, error.layer());
    if (part == nullptr || part->path.empty()) throw;
    throw error.with_path(part->path);
  }
}

}  // namespace internal

// Calls model(x) in the inference phase: dropout is the identity, and normalisation uses running
// statistics.
//
// throws: the errors of the model. The error of a layer has its path: "conv2 (Conv2D): ...".
template <class Model>
Tensor infer(const Model& model, const Tensor& x, CallSite where = CallSite::here()) {
  const PhaseScope inference(Phase::kInference);
  const CallScope scope(where);
  return internal::call_model(model, x, where);
}

}  // namespace nn
}  // namespace etude
