// SPDX-License-Identifier: Apache-2.0
// Runs transforms around the rules of one update. Used by optimizer.cc and transforms.cc only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/optim/internal/changes.h"
#include "etude/optim/slots.h"
#include "etude/optim/transforms.h"

namespace etude::optim::internal {

// A condition that is known now, or that the traced graph computes.
class Condition {
 public:
  explicit Condition(bool known) : known_(known) {}
  explicit Condition(Tensor value) : value_(std::move(value)) {}

  bool is_never() const { return known_ && !*known_; }
  bool is_always() const { return known_ && *known_; }
  Condition operator&&(const Condition& other) const;
  // a if the condition holds, else b.
  Tensor pick(const Tensor& a, const Tensor& b) const;

 private:
  std::optional<bool> known_;
  Tensor value_;  // bool[]
};

// One update.
struct TransformRun {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Slots& slots;
  std::vector<Parameter>& parameters;
  Changes changes = {};
  std::vector<Tensor> rates = {};      // of the rule, by group
  std::vector<Tensor> gradients = {};  // of the parameters; absent ones stay absent
  Condition due{true};                 // whether this call updates the model
  // By parameter: the number of its change in `changes`; kNone if the parameter does not change, or
  // has been assigned already.
  std::vector<std::size_t> places = {};
  std::vector<std::size_t> moved = {};  // parameters that have been assigned already
  Tensor next_count = {};               // traced: the result of count()

  bool is_traced() const { return slots.is_traced(); }
  // Parameter i after its step, as an operand.
  const Tensor& value(std::size_t i) const {
    return places[i] == kNone ? *parameters[i].value : changes.value(places[i]);
  }
  // Returns how many updates are complete at the end of this call, int64[].
  Tensor count() const;
  // Returns the state `name` of parameter i.
  Tensor& state(const char* name, std::size_t i) const;
  // Whether the integer x, int64[], has this remainder modulo `divisor`.
  Condition has_remainder(const Tensor& x, int64_t divisor, int64_t remainder) const;
};

// Returns the initial value of the state `name` of a transform. States of transforms follow the
// states of the rule.
StateStart transform_start(const Extras& extras, const std::string& name, const Tensor& value);
// Adds the state of a transform to an optimiser. throws: kInvalidArgument for state that exists.
void add_transform(Slots& slots, const Transform& transform);
// Makes the gradients of frozen parameters absent: parameters of frozen parts of the model, and
// parameters that a transform freezes. throws: kInvalidArgument, with the known paths, for a
// pattern that matches no parameter.
void leave_frozen(const Extras& extras, Slots& slots, std::vector<Parameter>& parameters);
void run_before(const Extras& extras, TransformRun& run);
void run_after(const Extras& extras, TransformRun& run);
// The path of each parameter.
using PathOf = etude::internal::FunctionRef<const std::string&(std::size_t parameter)>;
// throws: kInvalidArgument as leave_frozen.
void require_match(std::size_t count, PathOf path, std::string_view what,
                   const std::string& pattern);

}  // namespace etude::optim::internal
