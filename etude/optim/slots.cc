// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/slots.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/context.h"
#include "etude/core/context/placement.h"
#include "etude/core/copies.h"
#include "etude/core/internal/host_door.h"
#include "etude/ops.h"

namespace etude::optim::internal {
namespace {

constexpr const char* kUpdates = "updates";

// A path for messages when updates after the first no longer carry paths.
std::string name_of(const std::string& path, std::size_t index) {
  return path.empty() ? fmt::format("number {}", index) : "'" + path + "'";
}

Tensor count_of(int64_t updates) { return Tensor(std::vector<int64_t>{updates}, Shape{}); }

// Eagerly, a state that starts as the parameter has memory of its own. If they shared it, the first
// step could overwrite neither.
Tensor first_state(const StateStart& start, const Tensor& value) {
  if (!start.is_parameter) return etude::internal::full(start.type, start.value);
  return ContextStack::is_eager() ? value * 1.0 : value;
}

}  // namespace

Tensor& Slots::number(const std::string& name) { return numbers_[name]; }

Slots::Slots(const Slots&) = default;
Slots::Slots(Slots&&) noexcept = default;
Slots& Slots::operator=(const Slots&) = default;
Slots& Slots::operator=(Slots&&) noexcept = default;
Slots::~Slots() = default;

Slots::Slots(std::vector<std::string> names) : names_(std::move(names)), count_(count_of(0)) {}

int64_t Slots::updates() const {
  const void* data =
      is_traced() || !count_.device().is_home() ? nullptr : etude::internal::host_elements(count_);
  return data != nullptr ? *static_cast<const int64_t*>(data) : count_.item<int64_t>();
}

void Slots::count_update() {
  const int64_t updates = this->updates();
  if (TensorAccess::is_unique(count_) && count_.device().is_home()) {
    *static_cast<int64_t*>(etude::internal::host_elements_for_writing(count_)) = updates + 1;
  } else {
    count_ = count_of(updates + 1);
  }
}

void Slots::add_name(std::string name) {
  ETUDE_REQUIRE(std::find(names_.begin(), names_.end(), name) == names_.end(),
                "the optimiser has a state '{}' already. Add this transform once", name);
  names_.push_back(std::move(name));
}

const Tensor* Slots::find_number(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &found->second;
}

void Slots::pair(const std::vector<Parameter>& parameters) {
  if (slots_.empty()) make_slots(parameters);
  ETUDE_REQUIRE(slots_.size() == parameters.size(),
                "the model has {} tensors, but the optimiser's state was made for {}. Make a new "
                "optimiser for another model",
                parameters.size(), slots_.size());
}

void Slots::begin_update(const std::vector<Parameter>& parameters, StartOf start,
                         std::vector<Tensor*>& started) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [value, gradient, path, is_frozen, is_tangent] = parameters[i];
    const std::string& known = slots_[i].path;
    if (!gradient->has_value()) continue;
    ETUDE_REQUIRE(value->has_value(), "parameter {} is absent, but has a gradient",
                  name_of(known, i));
    ETUDE_REQUIRE(gradient->type() == value->type(), "parameter {} is {}, but its gradient is {}",
                  name_of(known, i), value->type()->to_string(), gradient->type()->to_string());
    slots_[i].tensors.resize(names_.size());
    for (std::size_t k = 0; k < names_.size(); ++k) {
      Tensor& state = slots_[i].tensors[k];
      const StateStart begin = start(k, *value);
      ETUDE_REQUIRE(!is_tangent || !begin.is_parameter,
                    "parameter {} moves by its own rule (DifferentiableTraits), so it has no {}: "
                    "weights alone are averaged. Freeze it, or leave out what keeps the {}",
                    name_of(known, i), names_[k], names_[k]);
      if (!state.has_value() && begin.type != nullptr) {
        started.push_back(&state);
        state = first_state(begin, *value);
      }
      // A state from a file comes to the device of its parameter.
      if (state.has_value() && begin.type != nullptr) {
        state = etude::internal::moved(state, begin.type->device());
      }
      const Type* type = state.has_value() ? state.type() : nullptr;
      ETUDE_REQUIRE(type == begin.type, "parameter {} is {}, but its {} is {}", name_of(known, i),
                    value->type()->to_string(), names_[k], type->to_string());
    }
  }
}

void Slots::note_copies(std::size_t i, const Tensor& value, std::string_view by,
                        CallSite where) const {
  using etude::internal::note_copy;
  const Slot& slot = slots_[i];
  if (!TensorAccess::is_unique(value)) note_copy(value, by, where, slot.path);
  for (std::size_t k = 0; k < slot.tensors.size(); ++k) {
    const Tensor& state = slot.tensors[k];
    if (state.has_value() && !TensorAccess::is_unique(state)) {
      note_copy(state, by, where, names_[k] + "/" + slot.path);
    }
  }
}

void Slots::make_slots(const std::vector<Parameter>& parameters) {
  State pending = pending_;
  std::vector<Slot> slots;
  for (const Parameter& parameter : parameters) {
    Slot& slot = slots.emplace_back();
    slot.path = parameter.path;
    slot.tensors.resize(names_.size());
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const auto found = pending.find(names_[k] + "/" + parameter.path);
      if (found == pending.end()) continue;
      slot.tensors[k] = std::move(found->second);
      pending.erase(found);
    }
  }
  ETUDE_REQUIRE(pending.empty(),
                "the restored state has '{}', but the model has no tensor of that path",
                pending.begin()->first);
  pending_.clear();
  slots_ = std::move(slots);
}

std::vector<Tensor> Slots::all_of(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  ETUDE_REQUIRE(found != names_.end(),
                "there is no state '{}', but {}. Add a transform that keeps "
                "it",
                name, names_.empty() ? "none" : fmt::format("{}", fmt::join(names_, ", ")));
  ETUDE_REQUIRE(!slots_.empty(), "the state '{}' is made by the first update", name);
  const auto k = static_cast<std::size_t>(found - names_.begin());
  std::vector<Tensor> out;
  for (const Slot& slot : slots_) {
    out.push_back(k < slot.tensors.size() ? slot.tensors[k] : Tensor());
  }
  return out;
}

State Slots::state() const {
  State out = pending_;
  out[kUpdates] = Tensor(updates());
  for (const auto& [name, number] : numbers_) out[name] = number;
  for (const Slot& slot : slots_) {
    for (std::size_t k = 0; k < slot.tensors.size(); ++k) {
      if (slot.tensors[k].has_value()) out[names_[k] + "/" + slot.path] = slot.tensors[k];
    }
  }
  return out;
}

Slots Slots::restored(State state) const {
  const auto updates = state.find(kUpdates);
  ETUDE_REQUIRE(updates != state.end(), "the state has no entry '{}'", kUpdates);
  const auto count = updates->second.item<int64_t>();
  state.erase(updates);
  std::map<std::string, Tensor> numbers;
  for (auto it = state.begin(); it != state.end();) {
    const std::string& name = it->first;
    if (name == kRateScale || numbers_.contains(name)) {
      numbers.emplace(name, it->second);
      it = state.erase(it);
      continue;
    }
    bool is_known = false;
    for (const std::string& prefix : names_) is_known = is_known || name.starts_with(prefix + "/");
    ETUDE_REQUIRE(is_known, "the state has '{}', but this optimiser keeps only {}", name,
                  fmt::join(names_, ", "));
    ++it;
  }
  for (const auto& [name, number] : numbers_) {
    ETUDE_REQUIRE(name == kRateScale || numbers.contains(name),
                  "the state has no '{}', which a transform of this optimiser keeps", name);
  }
  Slots out(names_);
  out.count_ = count_of(count);
  out.numbers_ = std::move(numbers);
  out.pending_ = std::move(state);
  return out;
}

}  // namespace etude::optim::internal
