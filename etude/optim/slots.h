// SPDX-License-Identifier: Apache-2.0
// The state of an optimiser: tensors per parameter, numbers of the whole, and the count of updates.
// Used by optimizer.h and transforms.cc; users see it as a State.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/fields.h"
#include "etude/base/function_ref.h"
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
  bool is_frozen = false;   // neither it nor its state changes, whatever its gradient
  bool is_tangent = false;  // not a tensor of the model, but of a tangent that is 0 at each update
};
// A part of the model with a tangent of its own. An optimiser steps from the tangent 0, then the
// part moves along it.
struct MovedPart {
  std::vector<Tensor*> tensors;
  std::size_t first = 0, count = 0;  // of the parameters: the tensors of the tangent
  std::function<void()> move;
};
// What an optimiser updates in a model.
struct Parameters {
  std::vector<Parameter> all;
  std::vector<MovedPart> moved;
};

// How a state tensor of a parameter begins.
struct StateStart {
  const Type* type = nullptr;  // null: this parameter has no such state
  double value = 0;
  bool is_parameter = false;  // not `value`, but the parameter as it then is
};
using StartOf = etude::internal::FunctionRef<StateStart(std::size_t state, const Tensor& value)>;

// The number by which callbacks scale the rate, as a state: there once somebody does.
inline constexpr const char* kRateScale = "rate_scale";

// State tensors per parameter, in the order of the model's tensors. A value; mirrors the model.
class Slots {
 public:
  // The names of the state tensors that each parameter may have.
  explicit Slots(std::vector<std::string> names);
  // In the source, since every program would compile them with all that a slot is made of.
  Slots(const Slots&);
  Slots(Slots&&) noexcept;
  Slots& operator=(const Slots&);
  Slots& operator=(Slots&&) noexcept;
  ~Slots();

  // throws: kFailedPrecondition while a function is traced that has them as an argument.
  std::int64_t updates() const;
  // The number of updates, int64[]; without elements while such a function is traced.
  const Tensor& count() const { return count_; }
  bool is_traced() const {
    return count_.type() != nullptr && TensorAccess::data(count_) == nullptr;
  }
  // Counts an update: in place, or by a new number.
  void count_update();
  void set_count(Tensor count) { count_ = std::move(count); }
  // Whether the next update makes the state, for which it needs the paths of the parameters.
  bool needs_paths() const { return slots_.empty(); }
  const std::vector<std::string>& names() const { return names_; }
  // One more state tensor for each parameter. throws: kInvalidArgument if there is one of that
  // name.
  void add_name(std::string name);
  // A number of the whole optimiser by name, "loss_scale"; absent until it is set.
  Tensor& number(const std::string& name);
  const Tensor* find_number(const std::string& name) const;

  // Lays slots beside `parameters`. throws: kInvalidArgument for a model with other tensors than at
  // the last update, and for restored state that it has no place for.
  void pair(const std::vector<Parameter>& parameters);
  // Makes state that is missing, and checks types. throws: kInvalidArgument, with the path, for a
  // gradient of another type than its parameter and for state of another type.
  void begin_update(const std::vector<Parameter>& parameters, StartOf start);
  // Notes for explain_copy() what of parameter i a step at `where` will copy since it is shared.
  void note_copies(std::size_t i, const Tensor& value, std::string_view by, CallSite where) const;
  std::size_t size() const { return slots_.size(); }
  // The states of a parameter, in the order of the names; absent ones have no value.
  std::vector<Tensor>& operator[](std::size_t parameter) { return slots_[parameter].tensors; }
  const std::string& path(std::size_t parameter) const { return slots_[parameter].path; }
  // The state of that name by parameter; absent where there is none. throws: kInvalidArgument for
  // another name, and before the first update.
  std::vector<Tensor> all_of(std::string_view name) const;

  State state() const;
  // Takes over what `state` gave. Its tensors go to the parameters at the next update, by path.
  // throws: kInvalidArgument for a name that is not part of this kind of state.
  void restore(State state);

  // Names and paths say nothing that the kind of optimiser and the model do not.
  std::tuple<> host_values() const { return {}; }

 private:
  struct Slot {
    std::string path;
    std::vector<Tensor> tensors;

    std::tuple<> host_values() const { return {}; }
    ETUDE_FIELDS(Slot, tensors);
  };
  void make_slots(const std::vector<Parameter>& parameters);

  std::vector<std::string> names_;
  Tensor count_;
  std::vector<Slot> slots_;
  std::map<std::string, Tensor> numbers_;
  State pending_;  // restored, not yet given to parameters

  ETUDE_FIELDS(Slots, count_, slots_, numbers_, pending_);
};

}  // namespace internal
}  // namespace optim
}  // namespace etude
