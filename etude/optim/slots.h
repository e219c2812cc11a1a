// SPDX-License-Identifier: Apache-2.0
// The state of an optimiser: tensors per parameter, numbers of the whole optimiser, and the count
// of updates. Used by optimizer.h and transforms.cc; users see it as a State.
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

// The state of an optimiser by name, "mean/conv1/filter", with the number of updates as "updates".
// Checkpoints store it.
using State = std::map<std::string, Tensor>;

namespace internal {

// A tensor of the model, its gradient (absent: no gradient) and its state.
struct Parameter {
  Tensor* value = nullptr;
  const Tensor* gradient = nullptr;
  std::string path = {};
  bool is_frozen = false;   // neither it nor its state changes, whatever its gradient
  bool is_tangent = false;  // a tensor of a tangent that is 0 at each update
};
// A part of the model with a tangent of its own. An optimiser steps from the tangent 0, then moves
// the part along the tangent.
struct MovedPart {
  std::vector<Tensor*> tensors;
  std::size_t first = 0, count = 0;  // parameters that are tensors of its tangent
  std::function<void()> move;
};
// The parameters of a model.
struct Parameters {
  std::vector<Parameter> all;
  std::vector<MovedPart> moved;
};

// The initial value of a state tensor of a parameter.
struct StateStart {
  const Type* type = nullptr;  // null: this parameter has no such state
  double value = 0;
  bool is_parameter = false;  // starts as the current parameter, not as `value`
};
using StartOf = etude::internal::FunctionRef<StateStart(std::size_t state, const Tensor& value)>;

// The name of the state with which callbacks scale the rate; it exists once the rate was scaled.
inline constexpr const char* kRateScale = "rate_scale";

// State tensors per parameter, in the order of the model's tensors. A value; mirrors the model.
class Slots {
 public:
  // The names of the state tensors that each parameter may have.
  explicit Slots(std::vector<std::string> names);
  // Not inline, so that programs do not compile the copies of all members.
  Slots(const Slots&);
  Slots(Slots&&) noexcept;
  Slots& operator=(const Slots&);
  Slots& operator=(Slots&&) noexcept;
  ~Slots();

  // throws: kFailedPrecondition while a function with this optimiser as an argument is being
  // traced.
  int64_t updates() const;
  // The number of updates, int64[]; it has no elements while such a function is being traced.
  const Tensor& count() const { return count_; }
  bool is_traced() const { return count_.type() != nullptr && !TensorAccess::has_elements(count_); }
  // Increments the count: in place, or by a new tensor.
  void count_update();
  void set_count(Tensor count) { count_ = std::move(count); }
  // Whether the next update creates the state, for which it needs the paths of the parameters.
  bool needs_paths() const { return slots_.empty(); }
  const std::vector<std::string>& names() const { return names_; }
  // Adds a state tensor for each parameter. throws: kInvalidArgument if the name exists.
  void add_name(std::string name);
  // A number of the whole optimiser, by name, such as "loss_scale"; absent until it is set.
  Tensor& number(const std::string& name);
  const Tensor* find_number(const std::string& name) const;

  // Assigns slots to `parameters`. throws: kInvalidArgument for a model with other tensors than at
  // the last update, and for restored state without a parameter.
  void pair(const std::vector<Parameter>& parameters);
  // Creates missing state, adds it to `started`, and checks types. throws: kInvalidArgument, with
  // the path, for a gradient of another type than its parameter, and for state of another type.
  void begin_update(const std::vector<Parameter>& parameters, StartOf start,
                    std::vector<Tensor*>& started);
  // Records, for explain_copy(), the shared tensors of parameter i that a step at `where` will
  // copy.
  void note_copies(std::size_t i, const Tensor& value, std::string_view by, CallSite where) const;
  std::size_t size() const { return slots_.size(); }
  // The states of a parameter, in the order of the names; absent states have no value.
  std::vector<Tensor>& operator[](std::size_t parameter) { return slots_[parameter].tensors; }
  const std::string& path(std::size_t parameter) const { return slots_[parameter].path; }
  // The state `name` for each parameter; absent for a parameter without it.
  // throws: kInvalidArgument for another name, and before the first update.
  std::vector<Tensor> all_of(std::string_view name) const;

  State state() const;
  // Restores the result of `state`. Its tensors are assigned to the parameters at the next update,
  // by path. throws: kInvalidArgument for a name that this kind of state does not have.
  void restore(State state) { *this = restored(std::move(state)); }
  // Returns the slots after such a restore.
  Slots restored(State state) const;

  // Empty, since names and paths follow from the kind of optimiser and the model.
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
