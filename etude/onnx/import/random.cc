// SPDX-License-Identifier: Apache-2.0
// Random numbers. They come from the sequence of this library; seeds of a model, which mean other
// numbers in each runtime, are ignored.
#include "etude/ops/random.h"

#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace randoms {
namespace {

using Results = std::vector<Tensor>;

Tensor uniform_in(const NodeCall& n, const Sizes& shape, DType dtype) {
  const double low = n.real("low", 0), high = n.real("high", 1);
  return random::uniform(
      shape,
      {.low = as_dtype(Tensor(low), dtype), .high = as_dtype(Tensor(high), dtype), .dtype = dtype});
}
Tensor normal_in(const NodeCall& n, const Sizes& shape, DType dtype) {
  const double mean = n.real("mean", 0), scale = n.real("scale", 1);
  return random::normal(shape, {.mean = as_dtype(Tensor(mean), dtype),
                                .stddev = as_dtype(Tensor(scale), dtype),
                                .dtype = dtype});
}
Results uniform(const NodeCall& n) {
  return {uniform_in(n, n.ints("shape"), n.dtype("dtype", kFloat32))};
}
Results normal(const NodeCall& n) {
  return {normal_in(n, n.ints("shape"), n.dtype("dtype", kFloat32))};
}
Results uniform_like(const NodeCall& n) {
  return {uniform_in(n, n.shape(0).to_vector(), n.dtype("dtype", n.dtype(0)))};
}
Results normal_like(const NodeCall& n) {
  return {normal_in(n, n.shape(0).to_vector(), n.dtype("dtype", n.dtype(0)))};
}
Results bernoulli(const NodeCall& n) {
  return {as_dtype(random::bernoulli(n.x(0)), n.dtype("dtype", n.dtype(0)))};
}
// Classes of each row of logarithms of probabilities.
Results multinomial(const NodeCall& n) {
  const int64_t count = n.integer("sample_size", 1);
  n.require(n.rank(0) == 2 && count > 0, "the operand is {}, and sample_size {}",
            n.shape(0).to_string(), count);
  const Tensor logits = expand_dims(n.x(0), 1);
  const Tensor out = random::categorical(logits, {n.shape(0)[0], count});
  return {as_dtype(out, n.dtype("dtype", kInt32))};
}

}  // namespace
}  // namespace randoms

void add_random_imports(Imports& to) {
  constexpr auto kRandom = Import::Kind::kRandom;
  to.insert(to.end(),
            {{"RandomUniform", "", "dtype high low seed shape", randoms::uniform, kRandom},
             {"RandomNormal", "", "dtype mean scale seed shape", randoms::normal, kRandom},
             {"RandomUniformLike", "input", "dtype high low seed", randoms::uniform_like, kRandom},
             {"RandomNormalLike", "input", "dtype mean scale seed", randoms::normal_like, kRandom},
             {"Bernoulli", "input", "dtype seed", randoms::bernoulli, kRandom},
             {"Multinomial", "input", "dtype sample_size seed", randoms::multinomial, kRandom}});
}

}  // namespace etude::onnx::importing
