// SPDX-License-Identifier: Apache-2.0
// Noise in the training phase; the identity in the inference phase. Draws come from the generator
// of this thread; inside a vmap the option `randomness` of the vmap applies. Dropout is in
// layers.h.
#pragma once

#include "etude/base/fields.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// Adds normal noise of mean 0. throws (construction): kInvalidArgument for a negative deviation.
class GaussianNoise {
 public:
  explicit GaussianNoise(double stddev, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(GaussianNoise);
  ETUDE_HOST_VALUES(stddev_);

 private:
  double stddev_;
};

// Multiplies by normal noise of mean 1 and variance p / (1 - p), the variance of Dropout(p).
// throws (construction): kInvalidArgument for p outside [0, 1).
class GaussianDropout {
 public:
  explicit GaussianDropout(double p, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(GaussianDropout);
  ETUDE_HOST_VALUES(p_);

 private:
  double p_;
};

// Sets elements to the lowest value of selu with probability p, then scales and shifts all elements
// so that mean 0 and variance 1 are preserved: G. Klambauer et al., "Self-normalizing neural
// networks" (2017).
// throws: as GaussianDropout.
class AlphaDropout {
 public:
  explicit AlphaDropout(double p, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(AlphaDropout);
  ETUDE_HOST_VALUES(p_);

 private:
  double p_;
};

// Dropout of whole channels of [n, .., channels]. throws: as GaussianDropout.
class SpatialDropout {
 public:
  explicit SpatialDropout(double p, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(SpatialDropout);
  ETUDE_HOST_VALUES(p_);

 private:
  double p_;
};

// Dropout of whole examples, for the branch that a block adds to its input. throws: as
// GaussianDropout.
class StochasticDepth {
 public:
  explicit StochasticDepth(double p, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(StochasticDepth);
  ETUDE_HOST_VALUES(p_);

 private:
  double p_;
};

}  // namespace nn
}  // namespace etude
