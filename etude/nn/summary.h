// SPDX-License-Identifier: Apache-2.0
// What a model is made of: its layers in the order of their calls, with result shapes, numbers of
// parameters and bytes. The model is run on a type without data, so nothing is computed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct LayerSummary {
  std::string path;  // "conv1", "layers/0"; "" for the model itself
  std::string kind;  // "Conv2D"
  Shape result;
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};
struct Summary {
  std::vector<LayerSummary> layers;
  Shape result;
  std::int64_t parameters = 0;  // of the whole model, also where no layer holds them
  std::int64_t bytes = 0;

  // A table with one line per layer, then the totals.
  std::string to_string() const;
};

namespace detail {

// A part of the model that may be a layer.
struct Part {
  std::string path;
  const void* address;
  std::int64_t parameters, bytes;
};

// While alive, calls of this thread run on types and calls of layers are noted.
class SummaryScope {
 public:
  SummaryScope();
  SummaryScope(const SummaryScope&) = delete;
  SummaryScope& operator=(const SummaryScope&) = delete;
  ~SummaryScope();
  // throws: kInvalidArgument for a shape with an unknown size.
  Tensor input(const Shape& shape) const;
  Summary finish(const std::vector<Part>& parts, const Tensor& result) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class T>
void count_parameters(const T& x, std::int64_t& parameters, std::int64_t& bytes) {
  if constexpr (HasLeaf<T, Tensor>::value) {
    for_each_leaf<Tensor>(x, [&](const Tensor& leaf) {
      parameters += leaf.has_value() ? leaf.size() : 0;
      bytes += leaf.has_value() ? leaf.nbytes() : 0;
    });
  }
}

// Finds the parts of a structure by reflection, each with its address and path.
class PartFinder {
 public:
  template <class T>
  void find(const std::string& path, const T& x) {
    if constexpr (etude::internal::Reflectable<T>) {
      Part part{path, &x, 0, 0};
      count_parameters(x, part.parameters, part.bytes);
      parts.push_back(part);
      find_fields(path, x, std::make_index_sequence<etude::internal::field_count<T>()>());
    }
  }
  template <class T>
  void find(const std::string& path, const std::vector<T>& x) {
    for (std::size_t i = 0; i < x.size(); ++i) find(join(path, std::to_string(i)), x[i]);
  }
  template <class... T>
  void find(const std::string& path, const std::tuple<T...>& x) {
    std::size_t i = 0;
    std::apply([&](const T&... part) { (find(join(path, std::to_string(i++)), part), ...); }, x);
  }

  std::vector<Part> parts;

 private:
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
  }
  template <class T, std::size_t... I>
  void find_fields(const std::string& path, const T& x, std::index_sequence<I...>) {
    [[maybe_unused]] auto all = etude::internal::fields(x);
    (find(join(path, std::string(etude::internal::field_name<T, I>)), std::get<I>(all)), ...);
  }
};

}  // namespace detail

// The layers that model(x) calls for an x of `input_shape`, batch axis included.
//
// throws: what the model throws for an input of that shape.
template <class Model>
Summary summary(const Model& model, const Shape& input_shape) {
  detail::PartFinder finder;
  finder.find("", model);
  const detail::SummaryScope scope;
  return scope.finish(finder.parts, model(scope.input(input_shape)));
}

}  // namespace nn
}  // namespace etude
