// SPDX-License-Identifier: Apache-2.0
// Layers one after the other: a list known at compile time, or a vector of layers of one type.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

namespace detail {

template <class Layer>
Tensor apply_layer(const Layer& layer, const Tensor& x) {
  return layer(x);
}
template <class Layer>
Tensor apply_layer(const std::vector<Layer>& layers, Tensor x) {
  for (const Layer& layer : layers) x = apply_layer(layer, x);
  return x;
}

}  // namespace detail

// The result of x through `layers`, from left to right.
template <class... Layer>
Tensor sequenced(Tensor x, const Layer&... layers) {
  ((x = detail::apply_layer(layers, x)), ...);
  return x;
}

// Any number of layers, functions, vectors of layers and further Sequentials, applied in order.
//
//   nn::Sequential model(nn::Dense(13, 64, {.activation = nn::relu}), nn::Dense(64, 1));
//   model.get<0>().weight;   // "layers/0/weight"
template <class... Layer>
class Sequential {
 public:
  explicit Sequential(Layer... layer) : layers(std::move(layer)...) {}

  Tensor operator()(const Tensor& x) const {
    return std::apply([&](const Layer&... layer) { return sequenced(x, layer...); }, layers);
  }

  template <std::size_t i>
  auto& get() {
    return std::get<i>(layers);
  }
  template <std::size_t i>
  const auto& get() const {
    return std::get<i>(layers);
  }
  static constexpr std::size_t size() { return sizeof...(Layer); }

  std::tuple<Layer...> layers;
  ETUDE_FIELDS(Sequential, layers);
};

}  // namespace nn
}  // namespace etude
