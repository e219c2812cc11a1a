// SPDX-License-Identifier: Apache-2.0
// Differential operators on functions of tensors, Variables and structures of them:
//
//   auto [loss, grads] = value_with_gradient([&](const Model& m) { return loss(m(x), y); }, model);
//   move(model, -0.1 * grads);
//
// Arguments that cannot move (integers, texts) and those wrapped in no_derivative are left out; one
// differentiable argument gives its tangent, several give a tuple. Unlike GradientTape, parts that
// the result does not depend on get zeros of their shape.
#pragma once

#include <functional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/runtime/gradient_tape.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Keeps an argument out of the derivative; the function gets the plain value.
template <class T>
NoDerivative<T> no_derivative(T value) {
  return {std::move(value)};
}

namespace internal {

struct GradientTapeAccess {
  static std::vector<Tensor> sweep(GradientTape& tape, const LeafList& targets,
                                   const LeafList& sources, std::vector<Tensor> seeds = {}) {
    return tape.sweep(targets, sources, {.output_gradients = std::move(seeds)}, {});
  }
  // Absent cotangents are none, not ones.
  static std::vector<Tensor> sweep_arrived(GradientTape& tape, const LeafList& targets,
                                           std::span<const Tensor> cotangents,
                                           const LeafList& sources) {
    return tape.sweep_arrived(targets, cotangents, sources);
  }
  static void freeze(GradientTape& tape) {
    tape.stop();
    tape.tape_.freeze();
  }
};

// Gives tensor leaves an identity of their own, so that a captured copy is not taken for the
// argument, and watches all leaves.
class FreshLeaves {
 public:
  explicit FreshLeaves(GradientTape& tape) : tape_(tape) {}
  void operator()(Tensor& leaf);
  void operator()(Variable& leaf);
  template <class T>
  void operator()(T&) {}

 private:
  GradientTape& tape_;
};

template <class T>
const T& pass(const T& x) {
  return x;
}
template <class T>
const T& pass(const NoDerivative<T>& x) {
  return x.value;
}

// Says at compile time which field of T has no tangent.
template <class Owner, std::size_t index, class Field>
struct FieldHasNoTangent {
  static_assert(sizeof(Field*) == 0,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>");
};
template <class T>
constexpr void explain_tangent() {
  if constexpr (!HasTangent<T> && Reflectable<T>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto look = [&]<std::size_t i>() {
        using Field = std::remove_reference_t<std::tuple_element_t<i, FieldsOf<T>>>;
        if constexpr (!HasTangent<Field> && !Reflectable<Field>) {
          static_cast<void>(sizeof(FieldHasNoTangent<T, i, Field>));
        } else {
          explain_tangent<Field>();
        }
      };
      (look.template operator()<I>(), ...);
    }
    (std::make_index_sequence<field_count<T>()>());
  }
}

template <class... X>
constexpr void require_arguments() {
  (explain_tangent<X>(), ...);
  static_assert((HasTangent<X> && ...),
                "etude: an argument is not Differentiable; wrap it in no_derivative()");
  static_assert((Differentiable<X> || ...), "etude: gradient: no argument is Differentiable");
  static_assert(
      ((!Differentiable<X> || HasLeaf<X, Tensor>::value || HasLeaf<X, Variable>::value) && ...),
      "etude: calls on host numbers are not recorded; pass Tensor(x), or no_derivative(x)");
}

// The tangents of the differentiable ones of X...: one alone, or a tuple.
template <class... X, class Tangents>
auto pick_tangents(Tangents&& all) {
  auto kept = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple_cat([&] {
      using T = std::tuple_element_t<I, std::remove_cvref_t<Tangents>>;
      if constexpr (std::is_same_v<T, NoTangent>) {
        return std::tuple<>();
      } else {
        return std::tuple<T>(std::get<I>(std::forward<Tangents>(all)));
      }
    }()...);
  }
  (std::index_sequence_for<X...>());
  if constexpr (std::tuple_size_v<decltype(kept)> == 1) {
    return std::get<0>(std::move(kept));
  } else {
    return kept;
  }
}

// The name of a type as the compiler writes it.
template <class T>
constexpr std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  return text.substr(0, text.find_first_of(";]"));
}

// throws: kInvalidArgument unless `value` is one floating or complex number.
void require_scalar_result(const Tensor& value);
// Says once per function that its result does not depend on an argument.
void warn_independent(const void* function_key, std::size_t argument, std::string_view type);

template <class... X>
std::tuple<tangent_t<X>...> build_all(const std::tuple<X...>& fresh, LeafGradients& found,
                                      const void* key) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<tangent_t<X>...>{[&]() -> tangent_t<X> {
      tangent_t<X> t = build_tangent(std::get<I>(fresh), found);
      if (!found.take_arrived() && Differentiable<X>) warn_independent(key, I, type_name<X>());
      return t;
    }()...};
  }
  (std::index_sequence_for<X...>());
}

// One address per type of function: what "once per call site" goes by.
template <class F>
inline constexpr char kFunctionKey = 0;

}  // namespace internal

// The value of f(x...), which must be a scalar, and its gradient, with one run of f.
//
// throws: kInvalidArgument if the result is not a scalar; what f throws.
template <class F, class... X>
auto value_with_gradient(const F& f, const X&... x) {
  internal::require_arguments<X...>();
  std::tuple<X...> fresh(x...);
  GradientTape tape({.watch_variables = false});
  internal::FreshLeaves watch(tape);
  internal::each_leaf(fresh, watch);
  using Result = decltype(std::invoke(f, internal::pass(x)...));
  static_assert(std::is_convertible_v<Result, Tensor>,
                "etude: gradient needs a function with one scalar Tensor as its result; use "
                "pullback for other results");
  Tensor value = std::apply(
      [&](const auto&... a) -> Tensor { return std::invoke(f, internal::pass(a)...); }, fresh);
  internal::require_scalar_result(value);
  internal::LeafGradients found(internal::GradientTapeAccess::sweep(tape, internal::LeafList(value),
                                                                    internal::LeafList(fresh)),
                                true);
  auto all = internal::build_all(fresh, found, &internal::kFunctionKey<F>);
  return std::pair{std::move(value), internal::pick_tangents<X...>(std::move(all))};
}

// The gradient of a scalar-valued f at x...; without arguments, the function that gives it.
template <class F, class... X>
auto gradient(const F& f, const X&... x) {
  if constexpr (sizeof...(X) == 0) {
    return [f](const auto&... at) { return etude::gradient(f, at...); };
  } else {
    return value_with_gradient(f, x...).second;
  }
}

}  // namespace etude

#include "etude/runtime/operators.h"
