// SPDX-License-Identifier: Apache-2.0
// update_state(): sets the next value of a layer's state (diff/layer_state.h) from inside a const
// operator(). Differential operators collect these updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/internal/state_box.h"
#include "etude/base/call_site.h"
#include "etude/base/internal/in_place.h"
#include "etude/base/structure.h"
#include "etude/core/context/context.h"
#include "etude/core/tensor.h"
#include "etude/diff/layer_state.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Returns the number of vmaps among `inner` and the contexts that enclose `inner`.
int count_vmaps(const Context& inner) noexcept;
// Returns x without derivatives. `vmaps` is the number of vmaps around the operator that collects
// the state.
// throws: kInvalidArgument if x is an example of a vmap inside that operator.
Tensor updated_value(const Tensor& x, int vmaps);
// Warns, once per layer and line, that no operator took a state update. Does nothing if the
// innermost context is a TypeContext, which only infers types.
void warn_untaken(std::string_view layer, std::string_view path, CallSite where);
// throws: kInvalidArgument if both tensors are present and their types differ.
void require_state_fits(const Tensor& was, const Tensor& now);

template <class T>
requires HasLeaf<T, Tensor, Marked::kVisit>::value struct StateCheck<T> {
  static void require_fit(const T& was, const T& now) {
    std::vector<const Tensor*> all;
    for_each_leaf<Tensor, Marked::kVisit>(now, [&](const Tensor& x) { all.push_back(&x); });
    std::size_t i = 0;
    for_each_leaf<Tensor, Marked::kVisit>(was, [&](const Tensor& x) {
      if (i < all.size()) require_state_fits(x, *all[i++]);
    });
  }
  static T with_update(T now, int vmaps) {
    for_each_leaf<Tensor, Marked::kVisit>(now, [&](Tensor& x) { x = updated_value(x, vmaps); });
    return now;
  }
};

template <class T>
NewState<T> taken_from(const StateBox<T>& box) {
  const T* value = box.value();
  return value != nullptr ? NewState<T>{*value} : NewState<T>{};
}

// The state updates that layers made while a GradientTape recorded. A tape does not copy the
// layers, so the key of an update is the address of its layer.
class TapedStates {
 public:
  // For a tape that began to record at `since`, inside `vmaps` vmaps.
  TapedStates(int vmaps, uint64_t since);
  ~TapedStates();
  template <class T>
  std::shared_ptr<StateBox<T>> box(const LayerState<T>& x) {
    std::shared_ptr<StateBoxBase>& base = place(&x);
    auto box = std::dynamic_pointer_cast<StateBox<T>>(base);
    if (box == nullptr) {  // a new layer, perhaps at the address of a destroyed layer
      base = box = std::make_shared<StateBox<T>>(nullptr, vmaps_, since_);
      box->is_taken = false;
    }
    return box;
  }
  template <class T>
  NewState<T> take(const LayerState<T>& x) const {
    const std::shared_ptr<StateBoxBase>* found = find(&x);
    if (found == nullptr) return {};
    const auto box = std::dynamic_pointer_cast<StateBox<T>>(*found);
    if (box == nullptr) return {};
    box->is_taken = true;
    return taken_from(*box);
  }
  // Warns about updates that no gradient() returned.
  void warn_untaken() const;
  uint64_t since() const noexcept { return since_; }

 private:
  std::shared_ptr<StateBoxBase>& place(const void* layer);
  const std::shared_ptr<StateBoxBase>* find(const void* layer) const;  // null: not found

  int vmaps_;
  uint64_t since_;
  struct Boxes;
  InPlace<Boxes, 64> boxes_;
};
// Returns the updates of the innermost tape that records on this thread; null if no tape records.
TapedStates* taped_states();

// Calls fn for each tensor of a state.
template <class T, class Fn>
void each_state_tensor(T& value, Fn&& fn) {
  if constexpr (HasLeaf<T, Tensor, Marked::kVisit>::value) {
    for_each_leaf<Tensor, Marked::kVisit>(value, [&](auto& x) { fn(x); });
  }
}

// Attaches a box to each state in a fresh copy of the arguments. The boxes collect state updates
// until this object is destroyed.
class AwaitedStates {
 public:
  AwaitedStates() = default;
  // `is_taken`: whether the operator returns the collected updates.
  template <class X>
  explicit AwaitedStates(X& fresh, bool is_taken = true) : is_taken_(is_taken) {
    open(fresh);
  }
  AwaitedStates(const AwaitedStates&) = delete;
  AwaitedStates& operator=(const AwaitedStates&) = delete;
  ~AwaitedStates() {
    for (const auto& box : boxes_) box->close();
  }
  template <class X>
  void open(X& fresh) {
    if constexpr (holds_state<X>()) {
      vmaps_ = count_vmaps();
      since_ = next_moment();
      each_leaf(fresh, *this);
    }
  }
  // Call close() after a run without an error. Passes the updates on to the enclosing operators.
  void close() {
    for (const auto& box : boxes_) {
      box->hand_on();
      box->close();
    }
  }
  // Skips the frozen boxes at index `at` and after it, and returns the update in the next box. Sets
  // `at` to the index after this box. Boxes are in flattening order.
  template <class T>
  NewState<T> next(std::size_t& at) const {
    while (boxes_[at]->is_frozen) ++at;
    return taken_from(static_cast<const StateBox<T>&>(*boxes_[at++]));
  }

  template <class T>
  void operator()(T&) {}
  template <class T>
  void state(LayerState<T>& x) {
    auto box = std::make_shared<StateBox<T>>(StateAccess::box(x), vmaps_, since_);
    box->is_taken = is_taken_;
    box->is_frozen = is_frozen_;
    boxes_.push_back(box);
    StateAccess::set_box(x, std::move(box));
  }
  // Drops the updates of a frozen part.
  template <class X>
  void frozen(X& x) {
    const bool was = std::exchange(is_frozen_, true);
    each_leaf(x, *this);
    is_frozen_ = was;
  }

 private:
  std::vector<std::shared_ptr<StateBoxBase>> boxes_;
  int vmaps_ = 0;
  uint64_t since_ = 0;
  bool is_taken_ = true;
  bool is_frozen_ = false;
};

}  // namespace internal

namespace internal {

// For operators that do not return state updates. `model` is the operator's copy of an argument.
// For each update of a layer in `model`, a warning names the path of the layer. Updates that an
// enclosing operator takes cause no warning.
template <class Model>
class WarnUntaken {
 public:
  explicit WarnUntaken(const Model& model) : model_(model) {
    if constexpr (holds_state<Model>()) each_leaf(model, *this);
  }
  template <class T>
  void operator()(const T&) {}
  template <class T>
  void state(const LayerState<T>& x) {
    const auto& box = StateAccess::box(x);
    if (box->value() == nullptr || box->hand_on()) return;
    std::string path;
    for_each_leaf<LayerState<T>, Marked::kVisit>(
        model_, [&](const std::string& at, const LayerState<T>& each) {
          if (&each == &x && at.find('/') != std::string::npos) path = at.substr(0, at.rfind('/'));
        });
    warn_untaken(box->layer, path, box->where);
  }

 private:
  const Model& model_;
};

}  // namespace internal

// Sets the next value of `state` to next(current value). The operator that differentiates the model
// collects this update. `layer` is the kind of layer, for messages. If no operator takes the
// update, a warning is printed once.
//
// throws: kInvalidArgument if the next value belongs to an example of a vmap inside that operator,
//         since each example would have its own state; the errors of next().
template <class T, class Fn>
requires std::is_invocable_r_v<T, const Fn&, const T&>
void update_state(const LayerState<T>& state, std::string_view layer, const Fn& next,
                  CallSite where = CallSite::here()) {
  std::shared_ptr<internal::StateBox<T>> box = internal::StateAccess::box(state);
  if (box == nullptr || !box->is_open()) {
    internal::TapedStates* taped = internal::taped_states();
    if (internal::StateReplay::is_after(taped != nullptr ? taped->since() : 0)) return;
    if (taped == nullptr) return internal::warn_untaken(layer, "", where);
    box = taped->box(state);
  }
  if (box->is_frozen) return;
  if (!box->is_taken) {
    box->layer = layer;
    box->where = where;
  }
  const T* latest = box->latest();
  box->put(internal::StateCheck<T>::with_update(next(latest != nullptr ? *latest : state.value),
                                                box->vmaps()));
}

// A deprecated name. The next release removes it.
template <class T, class Fn>
requires std::is_invocable_r_v<T, const Fn&, const T&>
[[deprecated("announce() is update_state()")]] void announce(const LayerState<T>& state,
                                                             std::string_view layer, const Fn& next,
                                                             CallSite where = CallSite::here()) {
  update_state(state, layer, next, where);
}

}  // namespace etude
