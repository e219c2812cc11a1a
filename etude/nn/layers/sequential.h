// SPDX-License-Identifier: Apache-2.0
// Chains of layers: a list that is known at compile time, or a vector of layers of one type.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

namespace internal {

// Applies layers in order and numbers them in errors: "Sequential[2] (Dense): ...".
class LayerChain {
 public:
  LayerChain(const char* container, Tensor x, CallSite where)
      : container_(container), x_(std::move(x)), where_(where) {}

  template <class Layer>
  void apply(const Layer& layer) {
    try {
      x_ = call_layer(layer, x_, where_);
    } catch (const LayerError& error) {
      throw error.inside(container_, index_);
    }
    ++index_;
  }
  template <class Layer>
  void apply(const std::vector<Layer>& layers) {
    LayerChain chain("vector", std::move(x_), where_);
    try {
      for (const Layer& layer : layers) chain.apply(layer);
    } catch (const LayerError& error) {
      throw error.inside(container_, index_);
    }
    x_ = std::move(chain.x_);
    ++index_;
  }
  Tensor result() { return std::move(x_); }

 private:
  const char* container_;
  Tensor x_;
  CallSite where_;
  std::size_t index_ = 0;
};

}  // namespace internal

// Passes x through `layers`, from left to right. throws: the errors of the layers, with the index
// of the layer: "sequenced[2] (Conv2D): ...".
template <class... Layer>
Tensor sequenced(const Arg& x, const Layer&... layers) {
  internal::LayerChain chain("sequenced", etude::internal::materialize(x), x.where());
  (chain.apply(layers), ...);
  return chain.result();
}

// Applies any number of layers, functions, vectors of layers and other Sequentials in order.
//
//   nn::Sequential model{nn::Dense(13, 64, {.activation = nn::relu}), nn::Dense(64, 1)};
//
// Use braces: the layers then draw their weights from left to right. With parentheses the compiler
// chooses the order of evaluation, and weights for one seed differ between compilers.
//
//   model.get<0>().weight;   // "layers/0/weight"
template <class... Layer>
class Sequential {
 public:
  explicit Sequential(Layer... layer) : layers(std::move(layer)...) {}

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    internal::LayerChain chain("Sequential", x, where);
    std::apply([&](const Layer&... layer) { (chain.apply(layer), ...); }, layers);
    return chain.result();
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
