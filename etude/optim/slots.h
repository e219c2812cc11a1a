// SPDX-License-Identifier: Apache-2.0
// The state of an optimiser: tensors per parameter, numbers of the whole optimiser, and the number
// of updates. Used by optimizer.h and transforms.cc. Users see the state as a State.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/fields.h"
#include "etude/base/internal/function_ref.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// The state of an optimiser by name, such as "mean/conv1/filter". The number of updates has the
// name "updates". Checkpoints store the state.
using State = std::map<std::string, Tensor>;

namespace internal {

// A tensor of the model with its gradient. An absent tensor means that there is no gradient.
struct Parameter {
  Tensor* value = nullptr;
  const Tensor* gradient = nullptr;
  std::string path = {};
  bool is_frozen = false;   // the tensor and its state do not change, whatever the gradient is
  bool is_tangent = false;  // a tensor of a tangent that is 0 before each update
};
// A part of the model with a tangent of its own. An optimiser steps the tangent, which starts as 0.
// The part then moves along the tangent.
struct MovedPart {
  std::vector<Tensor*> tensors;
  std::size_t first = 0, count = 0;  // the range of parameters that are tensors of the tangent
  std::function<void()> move;
};
// The parameters of a model.
struct Parameters {
  std::vector<Parameter> all;
  std::vector<MovedPart> moved;
};

// The initial value of a state tensor of one parameter.
struct StateStart {
  const Type* type = nullptr;  // null: this parameter has no such state
  double value = 0;
  bool is_parameter = false;  // starts as the current parameter instead of `value`
};
using StartOf = etude::internal::FunctionRef<StateStart(std::size_t state, const Tensor& value)>;

// The name of the number that multiplies all rates. scale_rate() changes the number, and its first
// call creates the number.
inline constexpr const char* kRateScale = "rate_scale";

// State tensors for each parameter, in the order of the model's tensors. A value: copies are
// independent.
class Slots {
 public:
  // The names of the state tensors that each parameter may have.
  explicit Slots(std::vector<std::string> names);
  // Defined in slots.cc, so that programs do not compile the copies of all members.
  Slots(const Slots&);
  Slots(Slots&&) noexcept;
  Slots& operator=(const Slots&);
  Slots& operator=(Slots&&) noexcept;
  ~Slots();

  // Returns the number of updates. throws: kFailedPrecondition while a function with this optimiser
  // as an argument is being traced.
  int64_t updates() const;
  // The number of updates, int64[]. The tensor has no elements while such a function is being
  // traced.
  const Tensor& count() const { return count_; }
  bool is_traced() const { return count_.type() != nullptr && !TensorAccess::has_elements(count_); }
  // Increments the number of updates, in place if its memory is not shared.
  void count_update();
  void set_count(Tensor count) { count_ = std::move(count); }
  // Whether the next update creates the state. That update needs the paths of the parameters.
  bool needs_paths() const { return slots_.empty(); }
  const std::vector<std::string>& names() const { return names_; }
  // Adds a state tensor for each parameter. throws: kInvalidArgument if the name exists.
  void add_name(std::string name);
  // Returns the value `name`, such as "loss_scale": one number for the whole optimiser. The number
  // is absent until it is set.
  Tensor& number(const std::string& name);
  const Tensor* find_number(const std::string& name) const;

  // Assigns slots to `parameters`. throws: kInvalidArgument if the number of tensors differs from
  // the last update, and for restored state that belongs to no parameter.
  void pair(const std::vector<Parameter>& parameters);
  // Creates missing state, and adds it to `started`. Moves state to the device of its parameter.
  // throws: kInvalidArgument, with the path, for an absent parameter with a gradient, and for a
  // gradient or a state whose type does not fit the parameter.
  void begin_update(const std::vector<Parameter>& parameters, StartOf start,
                    std::vector<Tensor*>& started);
  // A step copies shared tensors, since it cannot write them in place. Records for explain_copy()
  // which tensors of parameter i are shared, with the update `by` and its line `where`.
  void note_copies(std::size_t i, const Tensor& value, std::string_view by, CallSite where) const;
  std::size_t size() const { return slots_.size(); }
  // The state tensors of a parameter, in the order of the names. Missing state is an absent tensor.
  std::vector<Tensor>& operator[](std::size_t parameter) { return slots_[parameter].tensors; }
  const std::string& path(std::size_t parameter) const { return slots_[parameter].path; }
  // Returns the state `name` of each parameter; an absent tensor for a parameter without it.
  // throws: kInvalidArgument for an unknown name, and before the first update.
  std::vector<Tensor> all_of(std::string_view name) const;

  State state() const;
  // Restores the result of state(). The next update assigns its tensors to the parameters by path.
  // throws: kInvalidArgument for an unknown name, and if a number of this optimiser is missing.
  void restore(State state) { *this = restored(std::move(state)); }
  // Returns the slots after such a restore.
  Slots restored(State state) const;

  // Empty. Names and paths need no comparison: the model and the kind of the optimiser determine
  // them.
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
  State pending_;  // restored, not yet assigned to parameters

  ETUDE_FIELDS(Slots, count_, slots_, numbers_, pending_);
};

}  // namespace internal
}  // namespace optim
}  // namespace etude
