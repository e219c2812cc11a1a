// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/erased_layer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/value_observer.h"

namespace etude::nn {
namespace internal {

LayerCode::LayerCode() : key_(etude::internal::new_value_id()) {}
LayerCode::~LayerCode() = default;

RelayedCalls::RelayedCalls(std::vector<Part> made, std::vector<Part> shown)
    : made_(std::move(made)), shown_(std::move(shown)), outer_(layer_observer()) {
  layer_observer() = this;
}
RelayedCalls::~RelayedCalls() { layer_observer() = outer_; }

void RelayedCalls::called(const LayerId& layer, const char* kind, const Shape& result,
                          int64_t flops) {
  const Part* part = part_of(made_, layer);
  const LayerId id =
      part == nullptr ? layer : shown_[static_cast<std::size_t>(part - made_.data())].id;
  outer_->called(id, kind, result, flops);
}

}  // namespace internal

namespace {

// An op as a layer.
struct OpLayer {
  Tensor operator()(const Tensor& x, CallSite where) const { return op(Arg(x, where)); }
  Tensor (*op)(const Arg&);
  ETUDE_FIELDS(OpLayer);
};

}  // namespace

// Layers one after the other, each with its parts below a path.
struct Layer::Chain final : internal::LayerCode {
  struct Step {
    std::string path;
    std::shared_ptr<const internal::LayerCode> code;
  };
  Tensor call(const Parts& parts, const Tensor& x, CallSite where) const override {
    const Parts awaited = etude::internal::with_open_states(parts);
    Tensor y = x;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      try {
        y = steps[i].code->call(awaited.part(steps[i].path), y, where);
      } catch (const LayerError& error) {
        const std::string& inner = error.path();
        const std::string& path = steps[i].path;
        throw error.with_path(inner.empty() ? path : path + "/" + inner);
      }
    }
    return y;
  }
  std::vector<internal::Part> find_structs(const Parts& parts) const override {
    std::vector<internal::Part> all;
    std::vector<std::string> seen;
    for (const Step& step : steps) {
      if (std::ranges::find(seen, step.path) != seen.end()) continue;
      seen.push_back(step.path);
      for (internal::Part& part : step.code->find_structs(parts.part(step.path))) {
        part.path = part.path.empty() ? step.path : step.path + "/" + part.path;
        all.push_back(std::move(part));
      }
    }
    return all;
  }
  std::vector<Step> steps;
};

Layer::Layer(Tensor (*op)(const Arg&)) : Layer(OpLayer{op}) {}

Layer Layer::sequential(std::vector<Layer> layers) {
  auto code = std::make_shared<Chain>();
  std::vector<Parts> parts;
  for (Layer& layer : layers) {
    code->steps.push_back({"layers/" + std::to_string(code->steps.size()), layer.code_});
    parts.push_back(std::move(static_cast<Parts&>(layer)));
  }
  return {Parts::fields({{"layers", Parts::list(std::move(parts))}}), std::move(code)};
}

Layer Layer::graph(std::vector<Module> modules, CallSite where) {
  return etude::internal::located("Layer::graph", where, [&] {
    auto code = std::make_shared<Chain>();
    std::vector<Named> parts;
    std::map<std::string, std::shared_ptr<const internal::LayerCode>> known;
    for (Module& module : modules) {
      auto& of_name = known[module.name];
      if (module.layer != nullptr) {
        ETUDE_REQUIRE(
            of_name == nullptr,
            "module '{}' is given two layers. Name each layer once; repeat the name alone "
            "to use it again",
            module.name);
        of_name = module.layer->code_;
        parts.emplace_back(module.name, static_cast<const Parts&>(*module.layer));
      }
      ETUDE_REQUIRE(of_name != nullptr, "module '{}' has no layer, and none before it has its name",
                    module.name);
      code->steps.push_back({module.name, of_name});
    }
    return Layer(Parts::fields(std::move(parts)),
                 std::shared_ptr<const internal::LayerCode>(std::move(code)));
  });
}

Tensor Layer::operator()(const Tensor& x, CallSite where) const {
  const CallScope scope(where);
  return code_->call(*this, x, where);
}

Layer Layer::with_parts(Parts parts) const { return {std::move(parts), code_}; }

}  // namespace etude::nn
