// SPDX-License-Identifier: Apache-2.0
// The parameters of a model with their gradients. The parameters are the tensors of the model;
// tensors of frozen parts are marked. If a part of the model has its own tangent type, its
// parameters are the tensors of a tangent. Used by optimizer.h and lbfgs.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/tangent.h"
#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/diff/freezable.h"
#include "etude/diff/internal/function_checks.h"
#include "etude/optim/slots.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {
namespace internal {

[[noreturn]] void throw_unpaired(std::size_t parameters, std::size_t gradients);
void add_parameter(std::vector<Parameter>& out, Tensor& value, const std::string& path);
// Marks the parameters that belong to frozen parts.
void mark_frozen(std::vector<Parameter>& parameters, std::vector<const Tensor*> frozen);
// Replaces the tensors of a part in `out` by `tangent`, the tensors of the tangent along which the
// part moves.
void put_tangent(Parameters& out, MovedPart part, std::vector<Parameter> tangent);

// Calls put_tangent() for each part of `model` that has its own tangent type.
template <class Model>
void put_tangents(Parameters& out, Model& model, bool with_paths) {
  for_each_struct(model, [&](const std::string& path, auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (etude::internal::TensorManifold<Part>) {
      MovedPart moved;
      etude::internal::each_tensor_of(part, [&](Tensor& x) { moved.tensors.push_back(&x); });
      const auto along = std::make_shared<tangent_t<Part>>(zero_tangent(std::as_const(part)));
      moved.move = [&part, along] { etude::move(part, *along); };
      std::vector<Parameter> tangent;
      etude::internal::for_each_leaf_with<Tensor>(
          with_paths, *along, [&](const std::string& inner, Tensor& x) {
            add_parameter(tangent, x, inner.empty() ? path : path + "/" + inner);
          });
      put_tangent(out, std::move(moved), std::move(tangent));
    }
  });
}

// The parameters of `model`, without gradients.
template <class Model>
Parameters parameters_of(Model& model, bool with_paths) {
  Parameters out;
  etude::internal::for_each_leaf_with<Tensor>(
      with_paths, model,
      [&](const std::string& path, Tensor& x) { add_parameter(out.all, x, path); });
  std::vector<const Tensor*> frozen;
  etude::internal::each_frozen_leaf<Tensor>(model, [&](const Tensor& x) { frozen.push_back(&x); });
  if (!frozen.empty()) mark_frozen(out.all, std::move(frozen));
  if constexpr (etude::internal::holds_tensor_manifold<Model>()) {
    put_tangents(out, model, with_paths);
  }
  return out;
}

// Pairs the parameters of `model` with the tensors of its tangent `gradients`. The tangent may hold
// no host numbers.
template <class Model, class Gradients>
Parameters pair_up(Model& model, const Gradients& gradients, bool with_paths) {
  static_assert(!etude::internal::HasScalar<Gradients>,
                "etude: optimisers step tensors, but the tangent of the model has numbers of the "
                "host; make them tensors, or NoDerivative<> where they are not learned, or go by "
                "move(model, -rate * g)");
  Parameters out = parameters_of(model, with_paths);
  std::size_t i = 0;
  for_each_leaf<Tensor>(gradients, [&](const Tensor& g) {
    if (i < out.all.size()) out.all[i].gradient = &g;
    ++i;
  });
  if (i != out.all.size()) throw_unpaired(out.all.size(), i);
  return out;
}

}  // namespace internal
}  // namespace optim
}  // namespace etude
