// SPDX-License-Identifier: Apache-2.0
// State of layers that changes during training without a derivative, such as running statistics. A
// layer is const when it is called. So it calls update_state() with a function from the current
// state to the next state (autodiff/state_update.h). The operator that runs the model collects the
// next state and returns it in the tangent of the model. move() and optimisers assign it.
//
//   struct Counted {
//     LayerState<Tensor> calls = Tensor(0.0F);
//     Tensor operator()(const Tensor& x) const {
//       const auto next = [](const Tensor& n) { return n + 1.0F; };
//       if (is_training()) update_state(calls, "Counted", next);
//       return x;
//     }
//   };
//
// Traversals skip layer state like NoDerivative. Only traversals of marked values, such as
// checkpoints, visit layer state.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "etude/base/has_leaf.h"
#include "etude/diff/protocol.h"
#include "etude/diff/tangent_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Checks of new state. autodiff/state_update.h specialises this struct for state that holds
// tensors.
template <class T>
struct StateCheck {
  // throws: kInvalidArgument unless the second state has the types of the first state.
  static void require_fit(const T&, const T&) {}
  // Returns the state without derivatives. `vmaps`: the number of vmaps outside the operator that
  // collects the state.
  // throws: kInvalidArgument if the state belongs to an example of a vmap nested inside the
  // operator.
  static T with_update(T now, int /*vmaps*/) { return now; }
};

template <class T>
class StateBox;  // autodiff/internal/state_box.h
struct StateAccess;

}  // namespace internal

// The tangent of a LayerState<T>: its next state, if any. A sum of two tangents has the later
// state. Multiplying a tangent by a number does not change the state. Traversals treat a NewState
// like a LayerState.
template <class T>
struct NewState : NoDerivative<std::optional<T>> {
  void take(const NewState& later) {
    if (later.value) this->value = later.value;
  }
};

// A T that training steps change without a derivative.
template <class T>
struct LayerState : NoDerivative<T> {
  LayerState() = default;
  LayerState(T given) : NoDerivative<T>{std::move(given)} {}

  // Assigns the next state; called by move(). throws: kInvalidArgument if the next state has other
  // types.
  void take(const NewState<T>& now) {
    if (!now.value) return;
    internal::StateCheck<T>::require_fit(this->value, *now.value);
    this->value = *now.value;
  }

 private:
  friend struct internal::StateAccess;
  std::shared_ptr<internal::StateBox<T>> box_;  // null except in copies that operators make
};

namespace internal {

template <class T>
struct IsNoDerivative<LayerState<T>> : std::true_type {};
template <class T>
struct PartTypes<LayerState<T>> {
  using Types = TypeList<T>;
};
template <class T>
struct IsNoDerivative<NewState<T>> : std::true_type {};
template <class T>
struct PartTypes<NewState<T>> {
  using Types = TypeList<T>;
};
template <class T>
inline constexpr bool kIsState<LayerState<T>> = true;
template <class T>
inline constexpr bool kIsState<NewState<T>> = true;
template <class T>
struct LeafNumber<LayerState<T>> {
  using type = void;
};

struct StateAccess {
  template <class T>
  static const std::shared_ptr<StateBox<T>>& box(const LayerState<T>& x) {
    return x.box_;
  }
  template <class T>
  static void set_box(LayerState<T>& x, std::shared_ptr<StateBox<T>> box) {
    x.box_ = std::move(box);
  }
};

// Traversals of leaves skip layer state, except for a functor with a member state().
template <class X, class T>
struct StateTraits : MoveByLeaves<X, StateTraits<X, T>> {
  using Tangent = NewState<T>;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    if constexpr (requires { fn.state(x); }) fn.state(x);
  }
  template <class Fn>
  static constexpr Tangent build(const X& x, Fn& fn) {
    if constexpr (requires { Tangent(fn.state(x)); }) {
      return fn.state(x);
    } else {
      return Tangent();
    }
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    if constexpr (requires { fn.state(x, t); }) fn.state(x, t);
  }
};

struct AnyState {
  static constexpr bool explains = true;
  template <class T>
  static constexpr bool is = kIsState<T>;
};
// Whether a T can hold a LayerState or a NewState outside of NoDerivative.
template <class T>
constexpr bool holds_state() {
  return finds_kind<AnyState, Marked::kSkip, T>();
}

}  // namespace internal

template <class T>
struct DifferentiableTraits<LayerState<T>> : internal::StateTraits<LayerState<T>, T> {};
template <class T>
struct DifferentiableTraits<NewState<T>> : internal::StateTraits<NewState<T>, T> {};

}  // namespace etude
