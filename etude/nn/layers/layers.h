// SPDX-License-Identifier: Apache-2.0
// Layers: Dense, activations, reshaping, dropout. Other layers: convolution.h, pooling.h, norm.h,
// noise.h, embedding.h, recurrent.h, attention.h, blocks.h, adapters.h.
#pragma once

#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace internal {

// fold_time reshapes [n, time, ..] to [n * time, ..]; unfold_time splits y into the steps of such
// an x.
Tensor fold_time(const Tensor& x);
Tensor unfold_time(const Tensor& y, const Tensor& x);

}  // namespace internal

struct DenseOptions {
  Activation activation = {};
  bool bias = true;
  Initializer weight_init = glorot_uniform;
  Initializer bias_init = zeros;
};

// activation(x weight + bias). shapes: x [.., in], weight [in, out], bias [out]. If the weight has
// rank 3, each example is multiplied by its own matrix.
//
// throws (construction): kInvalidArgument for a size below 1. throws (call): kInvalidArgument for
// an input of another size.
class Dense {
 public:
  Dense(int64_t in, int64_t out, const DenseOptions& options = {},
        CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor weight;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(Dense, weight, bias);
  ETUDE_HOST_VALUES(activation_);

 private:
  Activation activation_;
};

// Any callable from tensor to tensor as a layer: Lambda(nn::relu).
class Lambda {
 public:
  // throws: kInvalidArgument for an empty function.
  explicit Lambda(Activation function, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Lambda);
  ETUDE_HOST_VALUES(function_);

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
  explicit Reshape(std::vector<int64_t> shape) : shape_(std::move(shape)) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Reshape);
  ETUDE_HOST_VALUES(shape_);

 private:
  std::vector<int64_t> shape_;
};

// Permutes the axes after the first; `axes` counts them from 1. Permute({2, 1}) swaps two axes.
//
// throws (construction): kInvalidArgument unless `axes` is a permutation of 1 to its length.
// throws (call): kInvalidArgument for an input of another rank.
class Permute {
 public:
  explicit Permute(std::vector<int64_t> axes, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Permute);
  ETUDE_HOST_VALUES(axes_);

 private:
  std::vector<int64_t> axes_;
};

// [n, ..] to [n, times, ..]. throws (construction): kInvalidArgument for times below 1.
class RepeatVector {
 public:
  explicit RepeatVector(int64_t times, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(RepeatVector);
  ETUDE_HOST_VALUES(times_);

 private:
  int64_t times_;
};

// A step of x [n, time, features] whose features all equal `value` is padding: it becomes 0.
// `lengths` returns the number of steps of each example before the padding at its end, for
// Recurrent::run. throws (call): kInvalidArgument unless x has 3 axes.
class Masking {
 public:
  explicit Masking(double value = 0) : value_(value) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // bool [n, time], true for steps that are not padding; int64 [n].
  Tensor mask(const Tensor& x, CallSite where = CallSite::here()) const;
  Tensor lengths(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Masking);
  ETUDE_HOST_VALUES(value_);

 private:
  double value_;
};

// x where it is positive, else x times a learned factor. Each feature of the last axis has a
// factor; if `features` is 1, all share a single factor.
//
// throws (construction): kInvalidArgument for features below 1. throws (call): kInvalidArgument for
// an input with other features.
class PReLU {
 public:
  explicit PReLU(int64_t features = 1, Initializer slope_init = constant(0.25),
                 CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor slope;
  ETUDE_FIELDS(PReLU, slope);
};

// x weight y + bias for each output. shapes: x [n, left], y [n, right], weight [left, right, out],
// bias [out], result [n, out].
//
// throws (construction): kInvalidArgument for sizes below 1. throws (call): kInvalidArgument for
// inputs of other sizes.
class Bilinear {
 public:
  Bilinear(int64_t left, int64_t right, int64_t out, const DenseOptions& options = {},
           CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, const Tensor& y, CallSite where = CallSite::here()) const;

  Tensor weight;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(Bilinear, weight, bias);
  ETUDE_HOST_VALUES(activation_);

 private:
  Activation activation_;
};

// Applies a layer at each step: the layer receives x [n, time, ..] as [n * time, ..]. throws: the
// errors of the layer; kInvalidArgument for fewer than 2 axes.
template <class Layer>
class TimeDistributed {
 public:
  explicit TimeDistributed(Layer given) : layer(std::move(given)) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return internal::run_layer(this, "TimeDistributed", where, 0, [&] {
      return internal::unfold_time(internal::call_layer(layer, internal::fold_time(x), where), x);
    });
  }

  Layer layer;
  ETUDE_FIELDS(TimeDistributed, layer);
};

// In the training phase, sets each element to 0 with probability p and divides the others by 1 - p;
// otherwise the identity. Draws from the generator of this thread. Inside a vmap, for example in
// per-example gradients, the option randomness = "different" of the vmap makes each example draw
// its own mask.
//
// throws: kFailedPrecondition in the training phase inside a vmap with the option randomness =
// "error", the default.
// throws (construction): kInvalidArgument for p outside [0, 1).
class Dropout {
 public:
  explicit Dropout(double p, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Dropout);
  ETUDE_HOST_VALUES(p_);

 private:
  double p_;
};

}  // namespace nn
}  // namespace etude
