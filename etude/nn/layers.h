// SPDX-License-Identifier: Apache-2.0
// Layers without parameters of their own shape: activations, reshaping, dropout; and Dense.
// Convolution and pooling: convolution.h. Normalisation: norm.h.
#pragma once

#include <tuple>

#include "etude/base/fields.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct DenseOptions {
  Activation activation = {};
  bool bias = true;
  Initializer weight_init = glorot_uniform;
  Initializer bias_init = zeros;
};

// activation(x weight + bias). shapes: x [.., in], weight [in, out], bias [out]; a weight of rank 3
// gives a product per example.
//
// throws (construction): kInvalidArgument for a size below 1. throws (call): kInvalidArgument for
// an input of another size.
class Dense {
 public:
  Dense(std::int64_t in, std::int64_t out, const DenseOptions& options = {},
        CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor weight;
  Tensor bias;  // absent if the options say so
  ETUDE_FIELDS(Dense, weight, bias);
  auto host_values() const { return std::tie(activation_); }

 private:
  Activation activation_;
};

// Any callable from tensor to tensor as a layer: Function(nn::relu).
class Function {
 public:
  // throws: kInvalidArgument for an empty function.
  explicit Function(Activation function, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Function);
  auto host_values() const { return std::tie(function_); }

 private:
  Activation function_;
};

// [n, ..] to [n, product of the rest].
class Flatten {
 public:
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Flatten);
};

// [n, ..] to [n, shape..]; one size may be -1.
class Reshape {
 public:
  explicit Reshape(std::vector<std::int64_t> shape) : shape_(std::move(shape)) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Reshape);
  auto host_values() const { return std::tie(shape_); }

 private:
  std::vector<std::int64_t> shape_;
};

// In the training phase sets each element to 0 with probability p and divides the others by 1 - p;
// else the identity. Draws from the generator of this thread.
//
// throws (construction): kInvalidArgument for p outside [0, 1).
class Dropout {
 public:
  explicit Dropout(double p, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Dropout);
  auto host_values() const { return std::tie(p_); }

 private:
  double p_;
};

}  // namespace nn
}  // namespace etude
