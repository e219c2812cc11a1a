// SPDX-License-Identifier: Apache-2.0
// Random tensors. Each call draws with a new key from the generator of this thread
// (etude/core/context/ambient.h), or with a given key. With a given key it is a pure function of
// key and options. An element depends only on the key and its index, on every machine and for any
// number of threads.
#pragma once

#include <optional>

#include "etude/core/context/ambient.h"
#include "etude/core/op/attrs.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace random {

// Makes a key, uint64[2], from a number.
Tensor key(uint64_t seed);
// Derives n new keys from a key, which should not be used again. shapes: uint64[n, 2].
Tensor split(const Tensor& key, int64_t n = 2, CallSite where = CallSite::here());
// Derives a new key from a key and an integer, such as a step number, or a key for each element of
// a tensor of integers. shapes: the shape of `number`, then 2; keys [k.., 2] belong to its first
// axes.
Tensor fold_in(const Tensor& key, const Arg& number);

// Fields of all options: `dtype` (by default the default dtype, or int32) and `key`, uint64[2].
// Draws with a shape also take keys [k.., 2], where k.. are the first axes of the shape: each key
// draws the same numbers for the remaining axes as it draws alone.
//
// Inside a vmap, its option `randomness` decides about draws without a key
// (etude/diff/vmap_options.h). The default refuses them: they throw kFailedPrecondition.
struct UniformOptions {
  Tensor low = {};   // default 0; broadcast to the shape
  Tensor high = {};  // default 1
  std::optional<DType> dtype = {};
  Tensor key = {};
  std::optional<Device> device = {};  // default: of the DeviceScope, else cpu:0
};
// Uniform in [low, high), an interval that may span the whole range of the dtype; low if both are
// equal. Derivatives pass to low and high.
// throws: kInvalidArgument unless low <= high.
Tensor uniform(const IntList& shape, const UniformOptions& options = {},
               CallSite where = CallSite::here());

struct NormalOptions {
  Tensor mean = {};    // default 0; broadcast to the shape
  Tensor stddev = {};  // default 1
  std::optional<DType> dtype = {};
  Tensor key = {};
  std::optional<Device> device = {};  // default: of the DeviceScope, else cpu:0
};
// Normal (Gaussian). Derivatives pass to mean and stddev.
// throws: kInvalidArgument for a negative deviation.
Tensor normal(const IntList& shape, const NormalOptions& options = {},
              CallSite where = CallSite::here());
// A normal distribution truncated at two standard deviations from the mean. The standard deviation
// of the draws is 0.8796 stddev.
Tensor truncated_normal(const IntList& shape, const NormalOptions& options = {},
                        CallSite where = CallSite::here());

struct DrawOptions {
  std::optional<DType> dtype = {};
  Tensor key = {};
  std::optional<Device> device = {};  // default: of the DeviceScope, else of p or the logits
};
// Integers in [low, high), int32 by default. throws: kInvalidArgument unless low < high and the
// dtype can represent them.
Tensor randint(const IntList& shape, int64_t low, int64_t high, const DrawOptions& options = {},
               CallSite where = CallSite::here());
// True with probability p, which broadcasts to the shape (default: the shape of p).
// throws: kInvalidArgument for p outside [0, 1].
Tensor bernoulli(const Tensor& p, const IntList& shape = {}, const DrawOptions& options = {},
                 CallSite where = CallSite::here());
// The numbers 0 .. n - 1 in a random order, int64.
Tensor permutation(int64_t n, const DrawOptions& options = {}, CallSite where = CallSite::here());

// Draws classes, int32 by default: class i of the last axis has probability softmax(logits)[i]. The
// other axes of the logits broadcast to the shape of the draws, and are its default.
// throws: kInvalidArgument for logits without classes, for shapes that do not broadcast, and for
//   rows that contain NaN or only -infinity. While a graph is recorded, logits have no values, and
//   the class of such a row is -1.
Tensor categorical(const Tensor& logits, const IntList& shape = {}, const DrawOptions& options = {},
                   CallSite where = CallSite::here());

struct ShuffleOptions {
  int64_t axis = 0;
  Tensor key = {};
};
// Returns x with its slices along one axis in random order. Derivatives pass to x.
Tensor shuffle(const Tensor& x, const ShuffleOptions& options = {},
               CallSite where = CallSite::here());

struct ChoiceOptions {
  bool replace = true;  // whether a slice may be drawn again
  Tensor p = {};        // probability of each slice along the first axis, [n]; default: uniform
  Tensor key = {};
};
// Slices of x along its first axis, drawn at random: [shape.., the other sizes of x]. Derivatives
// pass to x.
// throws: kInvalidArgument for a scalar x, an empty x, p outside [0, 1] or of another size, and,
//   without replacement, for more draws than slices with a positive probability.
Tensor choice(const Tensor& x, const IntList& shape, const ChoiceOptions& options = {},
              CallSite where = CallSite::here());

}  // namespace random
}  // namespace etude
