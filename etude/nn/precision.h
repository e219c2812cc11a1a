// SPDX-License-Identifier: Apache-2.0
// Precision: a layer or a whole model that computes in one dtype and stores its parameters in
// another dtype. fit and other code need no change.
//
//   nn::Precision model(Net(), nn::kMixedBFloat16);
//   nn::fit(model, optimizer, data, nn::softmax_cross_entropy, {.epochs = 10});
//
// With float16 the optimiser needs optim::loss_scaling(), since small gradients become 0.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "etude/autodiff/state_update.h"
#include "etude/autodiff/tangent.h"
#include "etude/base/fields.h"
#include "etude/base/structure.h"
#include "etude/core/context/precision_scope.h"
#include "etude/diff/differentiable.h"
#include "etude/nn/layer.h"
#include "etude/nn/parts.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct PrecisionPolicy {
  DType compute = kFloat32;    // of inputs and parameters during a call
  DType parameter = kFloat32;  // of parameters between calls, and of gradients and updates
  DType output = kFloat32;     // of the result
};
inline constexpr PrecisionPolicy kMixedBFloat16{.compute = kBFloat16};
inline constexpr PrecisionPolicy kMixedFloat16{.compute = kFloat16};

namespace internal {

// Returns x in another floating dtype. Returns other tensors unchanged: integers, bools, complex
// numbers and absent tensors.
Tensor in_precision(const Tensor& x, DType dtype);
void check_policy(const PrecisionPolicy& policy, CallSite where);
// Returns the dtype of state for parameters of dtype `parameter`: at least float32, since state
// changes by small steps.
DType state_dtype(DType parameter);

// The tensors of a model that a cast skips: state, and all tensors of parts with their own policy.
class KeptTensors {
 public:
  template <class Model>
  explicit KeptTensors(const Model& model) {
    if constexpr (etude::internal::holds_state<Model>()) {
      etude::internal::each_leaf(model, *this);
    }
    for_each_struct(model, [&](const std::string&, const auto& part) {
      if constexpr (requires { part.has_own_precision(); }) add(part);
    });
  }
  bool holds(const Tensor* x) const;

  template <class T>
  void operator()(const T&) {}
  template <class T>
  void state(const LayerState<T>& x) {
    add(x.value);
  }

 private:
  template <class T>
  void add(const T& part) {
    if constexpr (HasLeaf<T, Tensor, Marked::kVisit>::value) {
      for_each_leaf<Tensor, Marked::kVisit>(part, [&](const Tensor& x) { all_.push_back(&x); });
    }
  }

  std::vector<const Tensor*> all_;
};

// Returns the model with all floating tensors in `dtype`, except the tensors of KeptTensors.
// Derivatives pass through the casts. If a layer of the result updates its state, the update
// reaches the operator that runs the original model.
template <class Model>
Model model_in(Model model, DType dtype) {
  if constexpr (HasLeaf<Model, Tensor, Marked::kVisit>::value) {
    const KeptTensors kept(model);
    for_each_leaf<Tensor, Marked::kVisit>(model, [&](Tensor& x) {
      if (!kept.holds(&x)) x = in_precision(x, dtype);
    });
  }
  return model;
}

// A functor for each_leaf that casts state.
struct StateIn {
  DType dtype;
  template <class T>
  void operator()(T&) const {}
  template <class T>
  void state(LayerState<T>& x) const {
    etude::internal::each_state_tensor(x.value, [&](Tensor& t) { t = in_precision(t, dtype); });
  }
};

// While alive, reports calls of layers in `copy` to the layer observer of this thread as calls of
// the layers in `original`.
class WatchedCopy {
 public:
  template <class Layer>
  WatchedCopy(const Layer& original, const Layer& copy) {
    if (layer_observer() != nullptr) watch(find_parts(original), find_parts(copy));
  }
  WatchedCopy(const WatchedCopy&) = delete;
  WatchedCopy& operator=(const WatchedCopy&) = delete;
  ~WatchedCopy();

 private:
  class Translator;
  void watch(const std::vector<Part>& originals, const std::vector<Part>& copies);
  std::unique_ptr<LayerObserver> translator_;
  LayerObserver* outer_ = nullptr;
};

}  // namespace internal

// A layer or model with a policy. Each call casts the parameters and a floating input to the
// compute dtype, and the result to the output dtype. State, such as running statistics, remains
// float32, or float64 if the parameters are float64. A part that is itself a Precision uses its own
// policy.
//
// throws (construction): kInvalidArgument for a dtype that is not floating. throws (call): the
// errors of the layer, with the path of the layer; kInvalidArgument for an op whose operands have
// several floating dtypes.
template <class Layer>
class Precision {
 public:
  explicit Precision(Layer given, PrecisionPolicy policy = kMixedBFloat16,
                     CallSite where = CallSite::here())
      : layer((internal::check_policy(policy, where),
               internal::model_in(std::move(given), policy.parameter))),
        policy_(policy) {
    if constexpr (etude::internal::holds_state<Layer>()) {
      const internal::StateIn cast{internal::state_dtype(policy.parameter)};
      etude::internal::each_leaf(layer, cast);
    }
  }
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return internal::run_layer(this, "Precision", where, 0, [&] {
      const PrecisionScope scope;
      const Layer now = internal::model_in(layer, policy_.compute);
      const internal::WatchedCopy watched(layer, now);
      const Tensor y = internal::call_model(now, internal::in_precision(x, policy_.compute), where);
      return internal::in_precision(y, policy_.output);
    });
  }
  const PrecisionPolicy& policy() const { return policy_; }

  Layer layer;
  ETUDE_FIELDS(Precision, layer);
  ETUDE_HOST_VALUES(policy_.compute, policy_.parameter, policy_.output);
  static constexpr bool has_own_precision() { return true; }

 private:
  PrecisionPolicy policy_;
};

}  // namespace nn
}  // namespace etude
