// SPDX-License-Identifier: Apache-2.0
// Random tensors. Each call draws with a given key, or with a new key from the generator of this
// thread (etude/core/context/ambient.h). With a given key, the call is a pure function of key and
// options. The draws are the same on every machine and with any number of threads. An element
// depends only on the key and its index, except in permutation, shuffle and choice.
#pragma once

#include <optional>

#include "etude/core/context/ambient.h"
#include "etude/core/op/attrs.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace random {

// Returns a key, uint64[2], made from a number.
Tensor key(uint64_t seed);
// Derives n new keys, uint64[n, 2], from one key. Do not use the old key again.
Tensor split(const Tensor& key, int64_t n = 2, CallSite where = CallSite::here());
// Derives a new key from a key and an integer, such as a step number. For a tensor of integers,
// derives a key for each element.
//
// shapes: number [n..], key [2] or [k.., 2], where k.. are the first axes of n..; result [n.., 2].
Tensor fold_in(const Tensor& key, const Arg& number);

// All options have a `key`, uint64[2]. Draws with a shape also take keys [k.., 2], where k.. are
// the first axes of the shape. Each key then draws the remaining axes as in a separate call. The
// dtype of uniform and normal draws is by default the default dtype of the thread.
//
// Inside a vmap, the option `randomness` of vmap applies to draws without a key
// (etude/diff/vmap_options.h). By default such draws throw kFailedPrecondition.
struct UniformOptions {
  Tensor low = {};   // default 0; broadcast to the shape
  Tensor high = {};  // default 1
  std::optional<DType> dtype = {};
  Tensor key = {};
  std::optional<Device> device = {};  // default: of the DeviceScope, else cpu:0
};
// Draws uniform numbers in [low, high). The interval may span the whole range of the dtype. If low
// and high are equal, the result is low. Derivatives pass to low and high.
//
// throws: kInvalidArgument if low > high. Not checked while a graph is recorded, nor if both have
//         several elements.
Tensor uniform(const IntList& shape, const UniformOptions& options = {},
               CallSite where = CallSite::here());

struct NormalOptions {
  Tensor mean = {};    // default 0; broadcast to the shape
  Tensor stddev = {};  // default 1
  std::optional<DType> dtype = {};
  Tensor key = {};
  std::optional<Device> device = {};  // default: of the DeviceScope, else cpu:0
};
// Draws normal (Gaussian) numbers. Derivatives pass to mean and stddev.
//
// throws: kInvalidArgument for a negative stddev. Not checked while a graph is recorded.
Tensor normal(const IntList& shape, const NormalOptions& options = {},
              CallSite where = CallSite::here());
// Draws numbers of a normal distribution that is truncated at mean - 2 stddev and mean + 2 stddev.
// The standard deviation of the draws is 0.8796 stddev.
Tensor truncated_normal(const IntList& shape, const NormalOptions& options = {},
                        CallSite where = CallSite::here());

struct DrawOptions {
  std::optional<DType> dtype = {};
  Tensor key = {};
  std::optional<Device> device = {};  // default: of the DeviceScope, else of the operand or cpu:0
};
// Draws uniform integers in [low, high), int32 by default.
//
// throws: kInvalidArgument if low >= high, or if the dtype cannot represent all these integers.
Tensor randint(const IntList& shape, int64_t low, int64_t high, const DrawOptions& options = {},
               CallSite where = CallSite::here());
// Draws bools that are true with probability p. p broadcasts to `shape`, by default the shape of p.
//
// throws: kInvalidArgument for p outside [0, 1]. Not checked while a graph is recorded.
Tensor bernoulli(const Tensor& p, const IntList& shape = {}, const DrawOptions& options = {},
                 CallSite where = CallSite::here());
// Returns the numbers 0 .. n - 1 in a random order, int64 by default.
Tensor permutation(int64_t n, const DrawOptions& options = {}, CallSite where = CallSite::here());

// Draws classes, int32 by default. Class i of the last axis has probability softmax(logits)[i]. The
// other axes of the logits broadcast to `shape`. Without a shape, the draws have these axes.
//
// throws: kInvalidArgument for logits without classes, for shapes that do not broadcast, and for a
//         row that contains NaN or only -infinity. While a graph is recorded, such a row is not an
//         error: its class is -1.
Tensor categorical(const Tensor& logits, const IntList& shape = {}, const DrawOptions& options = {},
                   CallSite where = CallSite::here());

struct ShuffleOptions {
  int64_t axis = 0;
  Tensor key = {};
};
// Returns x with the slices along `axis` in a random order. Derivatives pass to x.
Tensor shuffle(const Tensor& x, const ShuffleOptions& options = {},
               CallSite where = CallSite::here());

struct ChoiceOptions {
  bool replace = true;  // whether a slice may be drawn again
  Tensor p = {};        // probability of each slice along the first axis, [n]; default: uniform
  Tensor key = {};
};
// Draws slices of x along its first axis. Derivatives pass to x.
//
// shapes: x [n, d..], result [shape.., d..].
// throws: kInvalidArgument for a scalar x, for n = 0, and for p outside [0, 1] or of another size
//         than n. Without replacement, also if there are more draws than slices with a positive
//         probability.
Tensor choice(const Tensor& x, const IntList& shape, const ChoiceOptions& options = {},
              CallSite where = CallSite::here());

}  // namespace random
}  // namespace etude
