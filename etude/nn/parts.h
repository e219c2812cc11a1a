// SPDX-License-Identifier: Apache-2.0
// The parts of a model by path and address, found by reflection. Used by summaries, and to name the
// layer in which an error arose. Not for parameters alone: for_each_leaf of base/structure.h.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/ambient.h"
#include "etude/core/tensor.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace detail {

// A part of the model that may be a layer.
struct Part {
  std::string path;  // "" for the model itself
  const void* address;
  std::int64_t parameters, bytes;
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

// Looks into structs, tuples, vectors, arrays and optionals; a part precedes what it consists of.
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
    find_range(path, x);
  }
  template <class T, std::size_t n>
  void find(const std::string& path, const std::array<T, n>& x) {
    find_range(path, x);
  }
  template <class T>
  void find(const std::string& path, const std::optional<T>& x) {
    if (x) find(path, *x);
  }
  template <class... T>
  void find(const std::string& path, const std::tuple<T...>& x) {
    std::size_t i = 0;
    std::apply([&](const T&... part) { (find(join(path, std::to_string(i++)), part), ...); }, x);
  }

  // Of parts at one address the innermost one, which comes last. Null if there is none.
  const Part* at(const void* address) const {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->address == address) return &*part;
    }
    return nullptr;
  }

  std::vector<Part> parts;

 private:
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
  }
  template <class Range>
  void find_range(const std::string& path, const Range& x) {
    for (std::size_t i = 0; i < x.size(); ++i) find(join(path, std::to_string(i)), x[i]);
  }
  template <class T, std::size_t... I>
  void find_fields(const std::string& path, const T& x, std::index_sequence<I...>) {
    [[maybe_unused]] auto all = etude::internal::fields(x);
    (find(join(path, std::string(etude::internal::field_name<T, I>)), std::get<I>(all)), ...);
  }
};

// model(x), called at `where`. throws: errors of layers with their path in `model`.
template <class Model>
Tensor call_model(const Model& model, const Tensor& x, CallSite where) {
  try {
    return call_layer(model, x, where);
  } catch (const LayerError& error) {
    PartFinder finder;
    finder.find("", model);
    const Part* part = finder.at(error.layer());
    if (part == nullptr || part->path.empty()) throw;
    throw error.with_path(part->path);
  }
}

}  // namespace detail

// model(x) in the inference phase: dropout is the identity, normalisation uses running statistics.
//
// throws: what the model throws; errors of layers name their path, "conv2 (Conv2D): ...".
template <class Model>
Tensor infer(const Model& model, const Tensor& x, CallSite where = CallSite::here()) {
  const PhaseScope inference(Phase::kInference);
  return detail::call_model(model, x, where);
}

}  // namespace nn
}  // namespace etude
