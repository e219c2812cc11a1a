// SPDX-License-Identifier: Apache-2.0
// What all optimisers share: pairing the tensors of a model with their gradients, and the state
// that belongs to each of them. Used by adam.h and sgd.h; users call update() of those.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// State of an optimiser by name, "mean/conv1/filter", with the number of updates as "updates": what
// checkpoints keep.
using State = std::map<std::string, Tensor>;

namespace internal {

// A tensor of the model, its gradient (absent: none arrived) and its state.
struct Parameter {
  Tensor* value = nullptr;
  const Tensor* gradient = nullptr;
  std::string path = {};
};

// State tensors per parameter, in the order of the model's tensors. A value; mirrors the model.
class Slots {
 public:
  // The names of the state tensors that each parameter has; at most three.
  explicit Slots(std::vector<std::string> names) : names_(std::move(names)) {}

  std::int64_t updates() const { return updates_; }
  const std::vector<std::string>& names() const { return names_; }
  // Starts an update of `parameters`: counts it, makes state that is missing (zeros), checks types.
  // throws: kInvalidArgument, with the path, for a gradient of another type than its parameter and
  //         for a model with other tensors than at the last update.
  void begin_update(const std::vector<Parameter>& parameters);
  // Notes for explain_copy() what of parameter i a step at `where` will copy since it is shared.
  void note_copies(std::size_t i, const Tensor& value, std::string_view by, CallSite where) const;
  std::array<Tensor, 3>& operator[](std::size_t parameter) { return slots_[parameter].tensors; }

  State state() const;
  // Takes over what `state` gave. Its tensors go to the parameters at the next update, by path.
  // throws: kInvalidArgument for a name that is not part of this kind of state.
  void restore(State state);

 private:
  struct Slot {
    std::string path;
    std::array<Tensor, 3> tensors;
  };
  void make_slots(const std::vector<Parameter>& parameters);

  std::vector<std::string> names_;
  std::int64_t updates_ = 0;
  std::vector<Slot> slots_;
  State pending_;  // restored, not yet given to parameters
};

[[noreturn]] void throw_unpaired(std::size_t parameters, std::size_t gradients);

// The tensors of `model` beside those of its tangent `gradients`.
template <class Model, class Gradients>
std::vector<Parameter> pair_up(Model& model, const Gradients& gradients, bool with_paths) {
  std::vector<Parameter> out;
  if (with_paths) {
    for_each_leaf<Tensor>(model, [&](const std::string& path, Tensor& x) {
      out.push_back({.value = &x, .path = path});
    });
  } else {
    for_each_leaf<Tensor>(model, [&](Tensor& x) { out.push_back({.value = &x}); });
  }
  std::size_t i = 0;
  for_each_leaf<Tensor>(gradients, [&](const Tensor& g) {
    if (i < out.size()) out[i].gradient = &g;
    ++i;
  });
  if (i != out.size()) throw_unpaired(out.size(), i);
  return out;
}

}  // namespace internal
}  // namespace optim
}  // namespace etude
