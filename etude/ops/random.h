// SPDX-License-Identifier: Apache-2.0
// Random tensors. Each call draws with a new key from the generator of this thread
// (etude/core/ambient.h), or with a key that is given: then it is a pure function of key and
// options. An element depends on the key and its index alone, on every machine and for any number
// of threads.
#pragma once

#include <optional>

#include "etude/core/ambient.h"
#include "etude/core/attrs.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace random {

// A key, uint64[2], from a number.
Tensor key(uint64_t seed);
// n new keys from one; the old one should not be used again. shapes: uint64[n, 2].
Tensor split(const Tensor& key, int64_t n = 2, CallSite where = CallSite::here());
// A new key from a key and a whole number, such as that of a step, or one for each element of a
// tensor of them. shapes: that of number, then 2; keys [k.., 2] are for the first axes of number.
Tensor fold_in(const Tensor& key, const Arg& number);

// Fields that all functions share: `dtype` (else the default dtype, or int32) and `key`: uint64[2],
// or, for draws of a shape, [k.., 2] for its first axes k..: each key draws what it draws alone for
// the other axes.
//
// Inside a vmap draws without a key follow its option `randomness` (etude/diff/vmap_options.h), and
// the default refuses them. throws: kFailedPrecondition.
struct UniformOptions {
  Tensor low = {};   // default 0; broadcast to the shape
  Tensor high = {};  // default 1
  std::optional<DType> dtype = {};
  Tensor key = {};
};
// Uniform in [low, high), which may be as wide as the dtype; low itself where both are equal.
// Derivatives go to low and high.
// throws: kInvalidArgument unless low <= high.
Tensor uniform(const IntList& shape, const UniformOptions& options = {},
               CallSite where = CallSite::here());

struct NormalOptions {
  Tensor mean = {};    // default 0; broadcast to the shape
  Tensor stddev = {};  // default 1
  std::optional<DType> dtype = {};
  Tensor key = {};
};
// Normal (Gauss). Derivatives go to mean and stddev.
// throws: kInvalidArgument for a negative deviation.
Tensor normal(const IntList& shape, const NormalOptions& options = {},
              CallSite where = CallSite::here());
// The same given that it lies within two deviations of the mean. Its own deviation is 0.8796
// stddev.
Tensor truncated_normal(const IntList& shape, const NormalOptions& options = {},
                        CallSite where = CallSite::here());

struct DrawOptions {
  std::optional<DType> dtype = {};
  Tensor key = {};
};
// Whole numbers in [low, high), int32 by default. throws: kInvalidArgument unless low < high and
// the dtype holds them.
Tensor randint(const IntList& shape, int64_t low, int64_t high, const DrawOptions& options = {},
               CallSite where = CallSite::here());
// True with probability p, which is broadcast to the shape (default: the shape of p).
// throws: kInvalidArgument for p outside [0, 1].
Tensor bernoulli(const Tensor& p, const IntList& shape = {}, const DrawOptions& options = {},
                 CallSite where = CallSite::here());
// The numbers 0 .. n - 1 in a random order, int64.
Tensor permutation(int64_t n, const DrawOptions& options = {}, CallSite where = CallSite::here());

// Draws of classes: class i of the last axis with probability softmax(logits)[i]; int32 by default.
// The shape of the draws defaults to the other axes of the logits, which broadcast to it.
// throws: kInvalidArgument for logits without classes, for shapes that do not broadcast, and for
//   rows with NaN, or of -infinity alone. While a graph is recorded logits have no values yet, and
//   the class of such a row is -1.
Tensor categorical(const Tensor& logits, const IntList& shape = {}, const DrawOptions& options = {},
                   CallSite where = CallSite::here());

struct ShuffleOptions {
  int64_t axis = 0;
  Tensor key = {};
};
// x with the parts along one axis in a random order. Derivatives go to x.
Tensor shuffle(const Tensor& x, const ShuffleOptions& options = {},
               CallSite where = CallSite::here());

struct ChoiceOptions {
  bool replace = true;  // whether one part may be drawn again
  Tensor p = {};        // of each part along the first axis, [n]; default: all alike
  Tensor key = {};
};
// Parts of x along its first axis, drawn at random: [shape.., the other sizes of x]. Derivatives go
// to x.
// throws: kInvalidArgument for a scalar x, an empty one, p outside [0, 1] or of another size, and
//   for more draws than parts without replacement (with p, than parts of p > 0).
Tensor choice(const Tensor& x, const IntList& shape, const ChoiceOptions& options = {},
              CallSite where = CallSite::here());

}  // namespace random
}  // namespace etude
