// SPDX-License-Identifier: Apache-2.0
// Random choices, made of public ops: the Gumbel-max trick draws classes without a loop (Gumbel
// 1954; top-k of the same sums draws without replacement, Vieira 2014).
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/context/draws_scope.h"
#include "etude/core/context/placement.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude::random {
namespace {

// Gumbel noise. A uniform number of 0 becomes -inf, which no maximum selects.
Tensor gumbel(const std::vector<int64_t>& shape, DType dtype, const Tensor& key,
              const std::optional<Device>& device) {
  return -log(-log(uniform(shape, {.dtype = dtype, .key = key, .device = device})));
}

void require_probabilities(const Tensor& p, int64_t parts, int64_t draws) {
  ETUDE_REQUIRE(p.rank() == 1 && p.shape()[0] == parts,
                "p has shape {}, but must have one probability for each of the {} parts of x",
                p.shape().to_string(), parts);
  if (!TensorAccess::has_elements(p)) return;  // while types are inferred
  int64_t possible = 0;
  for (const double value : p.to_vector<double>()) {
    ETUDE_REQUIRE(value >= 0 && value <= 1, "p is {}, but a probability lies in [0, 1]", value);
    possible += value > 0 ? 1 : 0;
  }
  ETUDE_REQUIRE(possible >= draws, "p is above 0 for {} parts, but {} are needed", possible, draws);
}

}  // namespace

Tensor categorical(const Tensor& logits, const IntList& shape, const DrawOptions& options,
                   CallSite where) {
  return internal::located("random.categorical", where, [&] {
    const internal::DrawsScope undo;
    const ContextScope scope(ContextStack::top(), where);
    ETUDE_REQUIRE(logits.rank() >= 1 && logits.shape()[logits.rank() - 1] > 0,
                  "logits of shape {} have no classes along a last axis",
                  logits.shape().to_string());
    std::vector<int64_t> sizes = logits.shape().to_vector();
    const int64_t classes = sizes.back();
    sizes.pop_back();
    if (shape.is_given()) sizes = shape.values();
    sizes.push_back(classes);
    const DType dtype = logits.dtype() == kFloat64 ? kFloat64 : kFloat32;
    const std::optional<Device> device = internal::device_of_draws(options.device, logits);
    const Tensor wide = internal::moved(astype(logits, dtype), device.value_or(Device()));
    // Also false of NaN.
    const Tensor possible =
        greater(max(wide, {.axis = -1}), -std::numeric_limits<double>::infinity());
    const bool is_known = TensorAccess::has_elements(possible);
    ETUDE_REQUIRE(!is_known || all(possible).item<bool>(),
                  "logits hold NaN, or rows of -infinity alone: no class has a probability. Look "
                  "at the calls that made them");
    const Tensor sums = broadcast_to(wide, sizes) + gumbel(sizes, dtype, options.key, device);
    const Tensor drawn = astype(argmax(sums, {.axis = -1}), options.dtype.value_or(kInt32));
    return is_known ? drawn : etude::where(possible, drawn, -1);
  });
}

Tensor shuffle(const Tensor& x, const ShuffleOptions& options, CallSite where) {
  return internal::located("random.shuffle", where, [&] {
    const internal::DrawsScope undo;
    const ContextScope scope(ContextStack::top(), where);
    ETUDE_REQUIRE(x.rank() > 0, "x is a scalar and has no axis to shuffle along");
    const int64_t axis = options.axis < 0 ? options.axis + x.rank() : options.axis;
    ETUDE_REQUIRE_CODE(kOutOfRange, axis >= 0 && axis < x.rank(),
                       "axis {} is outside of rank {}: -{} to {}", options.axis, x.rank(), x.rank(),
                       x.rank() - 1);
    const int64_t size = x.shape()[static_cast<int>(axis)];
    const std::optional<Device> device = internal::device_of_draws({}, x);
    return take(x, permutation(size, {.key = options.key, .device = device}), {.axis = axis});
  });
}

Tensor choice(const Tensor& x, const IntList& shape, const ChoiceOptions& options, CallSite where) {
  return internal::located("random.choice", where, [&] {
    const internal::DrawsScope undo;
    const ContextScope scope(ContextStack::top(), where);
    ETUDE_REQUIRE(x.rank() > 0 && x.shape()[0] > 0,
                  "x of shape {} has no parts along a first axis to choose from",
                  x.shape().to_string());
    const int64_t parts = x.shape()[0], draws = Shape(shape.values()).count();
    ETUDE_REQUIRE(options.replace || draws <= parts,
                  "{} draws without replacement need as many parts, but x has {}", draws, parts);
    const bool weighted = options.p.has_value();
    if (weighted) {
      require_probabilities(options.p, parts,
                            options.replace ? std::min<int64_t>(draws, 1) : draws);
    }
    const std::optional<Device> device = internal::device_of_draws({}, x);
    const DrawOptions draw = {.dtype = kInt64, .key = options.key, .device = device};
    const auto weights = [&] { return log(internal::moved(options.p, device.value_or(Device()))); };
    Tensor indices;
    if (options.replace) {
      indices = weighted ? categorical(weights(), shape, draw) : randint(shape, 0, parts, draw);
    } else if (weighted) {
      const Tensor sums = weights() + gumbel({parts}, options.p.dtype(), options.key, device);
      indices = reshape(top_k(sums, draws).indices, shape);
    } else {
      indices = reshape(permutation(parts, draw).at(slice(0, draws)), shape);
    }
    return take(x, indices);
  });
}

}  // namespace etude::random
