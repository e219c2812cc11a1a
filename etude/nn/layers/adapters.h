// SPDX-License-Identifier: Apache-2.0
// Layers that wrap the weight of another layer: normalised, adapted by a few parameters, or
// quantised to 8 bits.
#pragma once

#include <utility>

#include "etude/autodiff/state_update.h"
#include "etude/base/fields.h"
#include "etude/base/has_leaf.h"
#include "etude/diff/layer_state.h"
#include "etude/nn/init.h"
#include "etude/nn/internal/phase.h"
#include "etude/nn/layer.h"
#include "etude/nn/layers/layers.h"
#include "etude/version.h"

namespace ETUDE_API etude {
// Dense has no default value, which clang requires for the general template.
template <>
struct NoDerivative<nn::Dense> {
  nn::Dense value;
  operator const nn::Dense&() const { return value; }
};

namespace nn {
namespace internal {

// The tensor that a layer multiplies its input by.
template <class Layer>
auto& main_weight(Layer& layer) {
  if constexpr (requires { layer.filter; }) {
    return layer.filter;
  } else {
    return layer.weight;
  }
}

// While alive, observers see no layer calls of this thread. Used for layers that are made for a
// single call.
class Unobserved {
 public:
  Unobserved() : was_(std::exchange(layer_observer(), nullptr)) {}
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
  ~Unobserved() { layer_observer() = was_; }

 private:
  LayerObserver* was_;
};

// Returns weight [.., out] with columns of length 1 times `magnitude` [out], and the lengths of the
// columns.
Tensor with_lengths(const Tensor& weight, const Tensor& magnitude);
Tensor column_lengths(const Tensor& weight);
// One step of the power method from `u` [out] towards the first left singular vector of weight [..,
// out] seen as a matrix; and the weight divided by the singular value estimated with u.
Tensor power_step(const Tensor& weight, const Tensor& u);
Tensor over_spectral_norm(const Tensor& weight, const Tensor& u);
// A random vector of length 1, drawn from the generator of this thread.
Tensor unit_vector(int64_t size);

}  // namespace internal

// A layer with a separate parameter for the lengths of the columns of its weight (or filter): T.
// Salimans and D. Kingma, "Weight normalization" (2016). The weight of `layer` holds the
// directions. Initially directions and lengths multiply to the original weight.
template <class Layer>
class WeightNorm {
 public:
  explicit WeightNorm(Layer given)
      : layer(std::move(given)),
        magnitude(internal::column_lengths(internal::main_weight(layer))) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return internal::run_layer(this, "WeightNorm", where, 0, [&] {
      const internal::Unobserved inner;
      Layer now = layer;
      internal::main_weight(now) = internal::with_lengths(internal::main_weight(layer), magnitude);
      return internal::call_layer(now, x, where);
    });
  }

  Layer layer;
  Tensor magnitude;
  ETUDE_FIELDS(WeightNorm, layer, magnitude);
};

// A layer whose weight (or filter) is divided by its largest singular value as a matrix: T. Miyato
// et al., "Spectral normalization for generative adversarial networks" (2018). Each call of the
// training phase makes one step of the power method. The step is a state update, like the
// statistics of BatchNorm.
template <class Layer>
class SpectralNorm {
 public:
  explicit SpectralNorm(Layer given) : layer(std::move(given)) {
    const Shape& weight = internal::main_weight(layer).shape();
    vector.value = internal::unit_vector(weight[weight.rank() - 1]);
  }
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return internal::run_layer(this, "SpectralNorm", where, 0, [&] {
      const internal::Unobserved inner;
      const Tensor& weight = internal::main_weight(layer);
      Tensor u = vector.value;
      if (internal::is_trained("SpectralNorm", where)) {
        u = internal::power_step(weight, u);
        update_state(
            vector, "SpectralNorm", [&](const Tensor&) { return u; }, where);
      }
      Layer now = layer;
      internal::main_weight(now) = internal::over_spectral_norm(weight, u);
      return internal::call_layer(now, x, where);
    });
  }

  Layer layer;
  LayerState<Tensor> vector;
  ETUDE_FIELDS(SpectralNorm, layer, vector);
};

// A frozen Dense layer plus a product of two narrow matrices: E. Hu et al., "LoRA: low-rank
// adaptation of large language models" (2021). The result is base(x) + alpha / rank (x down) up;
// `up` is initially 0. shapes: down [in, rank], up [rank, out].
//
// throws (construction): kInvalidArgument for a rank below 1. throws (call): as Dense.
class LoRA {
 public:
  LoRA(Dense base_layer, int64_t rank, double alpha = 1, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // Returns one Dense layer with the same results, up to rounding, if the activation is the
  // identity.
  Dense merged() const;

  NoDerivative<Dense> base;
  Tensor down, up;
  ETUDE_FIELDS(LoRA, base, down, up);
  ETUDE_HOST_VALUES(factor_);

 private:
  double factor_;
};

// A Dense layer for inference whose weight is stored as int8 with one factor for each output. It
// needs a quarter of the memory. It has no trainable parameters.
//
// throws (construction): kInvalidArgument for a layer with a weight of rank 3. throws (call): as
// Dense.
class QuantizedDense {
 public:
  explicit QuantizedDense(const Dense& layer, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  NoDerivative<Tensor> weight;  // int8 [in, out], from -127 to 127
  NoDerivative<Tensor> factor;  // [out]
  NoDerivative<Tensor> bias;    // absent if the layer has none
  ETUDE_FIELDS(QuantizedDense, weight, factor, bias);
  ETUDE_HOST_VALUES(activation_);

 private:
  Activation activation_;
};

}  // namespace nn
}  // namespace etude
