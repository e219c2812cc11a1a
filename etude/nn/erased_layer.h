// SPDX-License-Identifier: Apache-2.0
// nn::Layer: any layer or model as one type, for models that are put together at run time. The
// parameters of a Layer are Parts. A Layer is therefore trained, staged, frozen and saved like a
// struct of layers, with the same paths and the same bits.
//
//   std::vector<nn::Layer> layers;
//   for (int64_t width : widths) layers.emplace_back(nn::Dense(width, width));
//   nn::Layer model = nn::Layer::sequential(std::move(layers));
//   nn::fit(model, optimizer, data, nn::softmax_cross_entropy);
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/nn/layer.h"
#include "etude/nn/parts.h"
#include "etude/parts/parts.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

class Layer;

namespace internal {

// The computation of a Layer, which never changes. Copies of the Layer share one LayerCode.
class LayerCode {
 public:
  LayerCode();
  LayerCode(const LayerCode&) = delete;
  LayerCode& operator=(const LayerCode&) = delete;
  virtual ~LayerCode();
  virtual Tensor call(const etude::Parts& parts, const Tensor& x, CallSite where) const = 0;
  // Returns the structs of the layer, by path; see parts.h.
  virtual std::vector<Part> find_structs(const etude::Parts& parts) const = 0;
  // Unique in the process. Staged functions use the number as a part of their cache key.
  uint64_t key() const noexcept { return key_; }

 private:
  uint64_t key_;
};

// While alive, reports calls of the layers in `made` as calls of the same layers in `shown`. The
// model that runs has the parts `made` and lives for a single call.
class RelayedCalls final : public LayerObserver {
 public:
  RelayedCalls(std::vector<Part> made, std::vector<Part> shown);
  RelayedCalls(const RelayedCalls&) = delete;
  RelayedCalls& operator=(const RelayedCalls&) = delete;
  ~RelayedCalls() override;
  void called(const LayerId& layer, const char* kind, const Shape& result, int64_t flops) override;

 private:
  std::vector<Part> made_, shown_;
  LayerObserver* outer_;
};

template <class Model>
class CodeOfModel final : public LayerCode {
 public:
  explicit CodeOfModel(Model model) : model_(std::move(model)) {}
  Tensor call(const etude::Parts& parts, const Tensor& x, CallSite where) const override {
    const Model now = struct_of(model_, parts);
    if (layer_observer() == nullptr) return call_model(now, x, where);
    const RelayedCalls relayed(find_parts(now), find_parts(model_));
    return call_model(now, x, where);
  }
  std::vector<Part> find_structs(const etude::Parts& parts) const override {
    std::vector<Part> shown = find_parts(model_);
    const std::vector<Part> sized = find_parts(struct_of(model_, parts));
    for (std::size_t i = 0; i < shown.size(); ++i) {
      shown[i].parameters = sized[i].parameters;
      shown[i].bytes = sized[i].bytes;
    }
    return shown;
  }

 private:
  Model model_;
};

template <class F>
class CodeOfFunction final : public LayerCode {
 public:
  explicit CodeOfFunction(F f) : f_(std::move(f)) {}
  Tensor call(const etude::Parts& parts, const Tensor& x, CallSite) const override {
    return etude::internal::call_owned(f_, parts, x);
  }
  std::vector<Part> find_structs(const etude::Parts&) const override { return {}; }

 private:
  F f_;
};

template <class F>
concept ForwardOfParts = std::is_invocable_v<const F&, const etude::Parts&, const Tensor&>;
template <class T>
concept LayerLike =
    !etude::internal::RuntimeStructure<T> &&
    (std::is_invocable_v<const T&, const Tensor&> ||
     std::is_invocable_v<const T&, const Tensor&, CallSite>)&&std::is_copy_constructible_v<T>;

}  // namespace internal

// A named module of Layer::graph(). A Module without a layer repeats the earlier module with the
// same name.
struct Module;

// A value. Copies share their computation, and share their tensors until one copy is trained.
// threads: thread-compatible.
class Layer : public Parts {
 public:
  // Wraps any callable from tensor to tensor: a layer, a struct of layers, or a function such as
  // nn::relu.
  template <class Model>
  requires internal::LayerLike<std::decay_t<Model>> Layer(Model model)
      : Parts(parts_of(model)), code_(std::make_shared<internal::CodeOfModel<Model>>(model)) {}
  Layer(Tensor (*op)(const Arg&));
  // Wraps a function of parts and input: Layer(parts, [](const Parts& p, const Tensor& x) { ... }).
  template <internal::ForwardOfParts F>
  Layer(Parts parts, F forward)
      : Parts(std::move(parts)),
        code_(std::make_shared<internal::CodeOfFunction<F>>(std::move(forward))) {}

  // Applies layers in order, as nn::Sequential does. The parts are "layers/0/...", "layers/1/...".
  static Layer sequential(std::vector<Layer> layers);
  // Applies named modules in order. The parts are "NAME/...". A repeated name without a layer
  // applies the same module again, with the same parameters.
  //
  //   Layer::graph({{"in", nn::Dense(4, 8)}, {"mix", nn::Dense(8, 8)}, {"mix"}, {"mix"}});
  //
  // throws: kInvalidArgument for a new name without a layer, and for a name with two layers.
  static Layer graph(std::vector<Module> modules, CallSite where = CallSite::here());

  // throws: the errors of the layer. A LayerError has the path inside this layer.
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  // Returns the same computation with other parts.
  // throws (when called): kInvalidArgument if the parts have other names.
  Layer with_parts(Parts parts) const;

  // For staged functions and summaries.
  uint64_t function_key() const noexcept { return code_->key(); }
  std::vector<internal::Part> find_structs() const { return code_->find_structs(*this); }

 private:
  friend class internal::LayerCode;
  struct Chain;
  Layer(Parts parts, std::shared_ptr<const internal::LayerCode> code)
      : Parts(std::move(parts)), code_(std::move(code)) {}

  std::shared_ptr<const internal::LayerCode> code_;
};

struct Module {
  Module(std::string name_) : name(std::move(name_)) {}
  template <class T>
  requires std::is_constructible_v<Layer, T&&> Module(std::string name_, T&& layer_)
      : name(std::move(name_)), layer(std::make_shared<const Layer>(std::forward<T>(layer_))) {}
  std::string name;
  std::shared_ptr<const Layer> layer = nullptr;
};

}  // namespace nn
}  // namespace etude
