// SPDX-License-Identifier: Apache-2.0
// What layers have in common. A layer is a value with a const call operator from tensor to tensor;
// its parameters are named tensor fields, and a model is any struct of layers.
//
//   struct Net {
//     nn::Dense hidden{784, 128, {.activation = nn::relu}};
//     nn::Dense output{128, 10};
//     Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
//   };
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "etude/base/call_site.h"
#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// A function of tensors, such as nn::relu; empty means the identity.
using Activation = std::function<Tensor(const Tensor&)>;

namespace detail {

// Watches calls of layers, to find their result shapes; see summary.h.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void called(const void* layer, const char* kind, const Shape& result) = 0;
};
// Of this thread; null while nobody watches.
LayerObserver*& layer_observer();

// Tells the observer, if there is one, and passes the result on.
Tensor observed(const void* layer, const char* kind, Tensor result);

// throws: kInvalidArgument naming the layer, what it needs and the shape of x, unless x has `rank`
//         axes (rank < 0: at least -rank) and its last one has `features` (any if negative).
void require_input(const char* layer, const Tensor& x, int rank, std::int64_t features,
                   const Tensor& parameter, const char* parameter_name);

}  // namespace detail
}  // namespace nn
}  // namespace etude
