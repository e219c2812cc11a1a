// SPDX-License-Identifier: Apache-2.0
// The common parts of layers. A layer is a value with a const call operator from tensor to tensor.
// Its parameters are named tensor fields. A model is any struct of layers.
//
//   struct Net {
//     nn::Dense hidden{784, 128, {.activation = nn::relu}};
//     nn::Dense output{128, 10};
//     Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
//   };
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/base/error.h"
#include "etude/base/fields.h"
#include "etude/core/call/arg.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/core/internal/value_observer.h"
#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// A function from tensor to tensor: an op such as nn::relu, an op with options such as nn::gelu, or
// any callable. Options have their default values. An empty Activation is the identity.
class Activation {
 public:
  Activation() = default;
  template <class Options>
  Activation(Tensor (*op)(const Arg&, const Options&))
      : function_([op](const Tensor& x) { return op(x, Options{}); }),
        key_(reinterpret_cast<std::uintptr_t>(op)) {}
  template <class F>
  requires(std::is_invocable_r_v<Tensor, const F&, const Tensor&> && !std::same_as<F, Activation>)
      Activation(F function)
      : function_(function), key_(key_of(function)) {
    etude::internal::require_owned<const F&, const Tensor&>();
  }

  Tensor operator()(Tensor x) const { return function_ ? function_(x) : x; }
  bool is_empty() const { return !function_; }
  // Two activations have equal keys if one is a copy of the other, if both have the same op, or if
  // both have the same lambda without captures.
  uint64_t host_key() const { return key_; }

 private:
  template <class F>
  static uint64_t key_of(const F& function) {
    if constexpr (std::is_pointer_v<F>) {
      return reinterpret_cast<std::uintptr_t>(function);
    } else if constexpr (std::is_empty_v<F>) {
      static const char of_this_type = 0;
      return reinterpret_cast<std::uintptr_t>(&of_this_type);
    } else {
      return etude::internal::new_value_id();
    }
  }

  std::function<Tensor(const Tensor&)> function_;
  uint64_t key_ = 0;
};

// The identity of a layer, for comparison only. A layer may have the same address as its first
// field or as an adjacent empty layer. `type` distinguishes these objects.
struct LayerId {
  const void* address = nullptr;
  std::type_index type = typeid(void);

  template <class Layer>
  static LayerId of(const Layer& layer) {
    return {&layer, typeid(Layer)};
  }
  friend bool operator==(const LayerId&, const LayerId&) = default;
  friend auto operator<=>(const LayerId&, const LayerId&) = default;
};

// An error inside a layer, with the place of the layer in the model: "conv2 (Conv2D): the input has
// shape ...". If the model is known (fit, evaluate, infer, summary), the place is the path that
// summaries and checkpoints use. In a chain of layers the place is an index: "Sequential[2]".
class LayerError : public Error {
 public:
  // Keeps the code and the text of `cause`. The line is the line of `cause` if known, else `where`.
  LayerError(LayerId layer, std::string kind, const Error& cause, CallSite where);

  // The layer that failed.
  const LayerId& layer() const noexcept { return layer_; }
  const std::string& kind() const noexcept { return kind_; }
  const std::string& path() const noexcept { return path_; }

  // Returns the same error with "[index]" added to the place, for a layer inside a container of the
  // kind `container`.
  LayerError inside(const char* container, std::size_t index) const;
  // Returns the same error with the path of the layer in its model.
  LayerError with_path(std::string path) const;

 private:
  LayerError(const LayerError& error, std::string path);

  LayerId layer_;
  std::string kind_, path_;
  std::string indices_;  // within containers: "[2][0]"
  Error cause_;
};

namespace internal {

// Observes calls of layers to find the shapes of results; see summary.h.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void called(const LayerId& layer, const char* kind, const Shape& result,
                      int64_t flops) = 0;
};
// The observer of this thread, or null.
LayerObserver*& layer_observer();

// Returns the tensor that summaries show for a result: the result itself, or its first field.
inline const Tensor& shown(const Tensor& result) { return result; }
template <class R>
const Tensor& shown(const R& result) {
  return shown(std::get<0>(etude::internal::fields(result)));
}

// Runs `fn`, the computation of a layer that is called at `where`. Reports the shape of the result
// and the number of operations to the observer. `flops` is the number of operations for one element
// of the result. Adds the kind of the layer to errors.
//
// throws: LayerError for every Error.
template <class Layer, class Fn>
auto run_layer(const Layer* layer, const char* kind, CallSite where, int64_t flops, const Fn& fn) {
  const CallScope scope(where);
  try {
    auto result = fn();
    if (LayerObserver* observer = layer_observer()) {
      const Tensor& y = shown(result);
      observer->called(LayerId::of(*layer), kind, y.shape(), flops * y.size());
    }
    return result;
  } catch (const LayerError&) {
    throw;
  } catch (const Error& error) {
    throw LayerError(LayerId::of(*layer), kind, error, etude::internal::user_line(where));
  }
}

// Calls any callable that is used as a layer. Passes on the line of the caller.
template <class Layer>
Tensor call_layer(const Layer& layer, const Tensor& x, CallSite where) {
  if constexpr (std::is_invocable_v<const Layer&, const Tensor&, CallSite>) {
    return etude::internal::call_owned(layer, x, where);
  } else if constexpr (std::same_as<Layer, Tensor (*)(const Arg&)>) {
    return layer(Arg(x, where));
  } else {
    return etude::internal::call_owned(layer, x);
  }
}

// Returns the same error with `name` in front and the line `where`.
Error restated(const Error& error, const std::string& name, CallSite where);

// Checks that x has `rank` axes, or at least -rank if `rank` is negative. If `features` is not
// negative, the last axis must have that size.
//
// throws: kInvalidArgument, with the requirement and the shape of x.
void require_input(const Tensor& x, int rank, int64_t features, const Tensor& parameter,
                   const char* parameter_name);

}  // namespace internal
}  // namespace nn
}  // namespace etude
