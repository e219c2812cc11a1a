// SPDX-License-Identifier: Apache-2.0
// Reports at compile time why a type has no tangent: the argument, the field of the struct, its
// type, and the next step. Called on entry to operators. Used by refusals.h and autodiff/.
//
// Compilers print the template that contains a static assertion together with its text. So a
// message is one text for each kind of type, and the names from the user's program are arguments of
// that template:
//
//   FieldHasNoTangent<Node<double>, FieldName<4>{"next"}, Node<double>*>
#pragma once

#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "etude/base/fields.h"
#include "etude/diff/aggregates.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A field name as a template argument.
template <std::size_t n>
struct FieldName {
  char text[n + 1]{};
  consteval explicit FieldName(std::string_view name) {
    for (std::size_t i = 0; i < n; ++i) text[i] = name[i];
  }
};

// Kinds of types without a tangent, by the remedy.
enum class NoTangentKind { kPointer, kFunction, kOwner, kView, kSet, kArray, kComplex, kOther };

template <class T>
inline constexpr NoTangentKind kNoTangentKind = std::is_pointer_v<T> ? NoTangentKind::kPointer
                                                : std::is_array_v<T> ? NoTangentKind::kArray
                                                                     : requires {
  typename T::key_type;
}
&&!requires { typename T::mapped_type; }
? NoTangentKind::kSet : NoTangentKind::kOther;
template <class F>
inline constexpr NoTangentKind kNoTangentKind<std::function<F>> = NoTangentKind::kFunction;
template <class T>
inline constexpr NoTangentKind kNoTangentKind<std::shared_ptr<T>> = NoTangentKind::kOwner;
template <class T>
inline constexpr NoTangentKind kNoTangentKind<std::weak_ptr<T>> = NoTangentKind::kOwner;
template <class T, class D>
inline constexpr NoTangentKind kNoTangentKind<std::unique_ptr<T, D>> = NoTangentKind::kOwner;
template <class T, std::size_t n>
inline constexpr NoTangentKind kNoTangentKind<std::span<T, n>> = NoTangentKind::kView;

template <class T>
inline constexpr NoTangentKind kNoTangentKind<std::complex<T>> = NoTangentKind::kComplex;

// Each assertion has its own name, since compilers print the condition.
template <class Owner, auto name, class Field, class Part>
struct FieldHasNoTangent {
  static constexpr NoTangentKind kind = kNoTangentKind<Part>;
  static constexpr bool is_value = kind != NoTangentKind::kPointer;
  static_assert(is_value,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>; a pointer does not say whose number it is: hold the value "
                "itself");
  static constexpr bool is_known = kind != NoTangentKind::kFunction;
  static_assert(is_known,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>; std::function hides what it computes: hold the callable "
                "itself, or an etude::DifferentiableFunction");
  static constexpr bool is_owned = kind != NoTangentKind::kOwner;
  static_assert(is_owned,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>; what std::shared_ptr or std::unique_ptr holds lies "
                "elsewhere and may be shared: hold the value itself");
  static constexpr bool is_no_view = kind != NoTangentKind::kView;
  static_assert(is_no_view,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>; a std::span is a view of memory that others own: hold a "
                "std::vector, and make spans in the function");
  static constexpr bool is_no_set = kind != NoTangentKind::kSet;
  static_assert(is_no_set,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>; keys of a set cannot move: hold a std::vector");
  static constexpr bool is_differentiable =
      kind != NoTangentKind::kArray && kind != NoTangentKind::kOther;
  static_assert(is_differentiable,
                "etude: a field has no tangent type; make it Differentiable or wrap it in "
                "etude::NoDerivative<>; a class of your own lists its fields with "
                "ETUDE_FIELDS(Class, a, b) in its body");
};
template <std::size_t index, class Argument, class Part>
struct ArgumentHasNoTangent {
  static constexpr NoTangentKind kind = kNoTangentKind<Part>;
  static constexpr bool is_value = kind != NoTangentKind::kPointer && kind != NoTangentKind::kOwner;
  static_assert(is_value,
                "etude: an argument is not Differentiable; wrap it in no_derivative(), or pass the "
                "value itself for a pointer, a std::vector for several");
  static constexpr bool is_no_view = kind != NoTangentKind::kView;
  static_assert(is_no_view,
                "etude: an argument is not Differentiable; wrap it in no_derivative(); a std::span "
                "is a view of memory that others own, and derivatives outlive their arguments: "
                "pass a std::vector, and make spans in the function");
  static constexpr bool is_known = kind != NoTangentKind::kFunction;
  static_assert(is_known,
                "etude: an argument is not Differentiable; wrap it in no_derivative(); "
                "std::function hides what it computes: pass the callable itself, or an "
                "etude::DifferentiableFunction");
  static constexpr bool is_container = kind != NoTangentKind::kArray;
  static_assert(is_container,
                "etude: an argument is not Differentiable; wrap it in no_derivative(), or pass "
                "std::array or std::vector for a C array");
  static constexpr bool is_real = kind != NoTangentKind::kComplex;
  static_assert(
      is_real,
      "etude: an argument is not Differentiable; wrap it in no_derivative(); derivatives of plain "
      "C++ are with respect to real numbers: pass the real and the imaginary part");
  static constexpr bool is_differentiable =
      !is_real || !is_value || !is_known || !is_container || !is_no_view;
  static_assert(is_differentiable,
                "etude: an argument is not Differentiable; wrap it in no_derivative(); a class of "
                "your own lists its fields with ETUDE_FIELDS(Class, a, b) in its body");
};
template <class Result, class Part>
struct ResultHasNoTangent {
  static constexpr bool is_differentiable = HasTangent<Part>;
  static_assert(is_differentiable, "etude: the result type is not Differentiable");
};

// The first type without a tangent; void if all have one.
template <class... T>
struct FirstWithoutTangent : std::type_identity<void> {};
template <class T, class... Rest>
struct FirstWithoutTangent<T, Rest...>
    : std::conditional_t<HasTangent<T>, FirstWithoutTangent<Rest...>, std::type_identity<T>> {};
template <class List>
struct FirstOfListWithoutTangent;
template <class... T>
struct FirstOfListWithoutTangent<TypeList<T...>> : FirstWithoutTangent<std::remove_cvref_t<T>...> {
};

// The part of a container that has no tangent; T itself if it is not a container.
template <class T>
constexpr auto part_without_tangent() {
  using Part = typename FirstOfListWithoutTangent<typename PartTypes<T>::Types>::type;
  if constexpr (!std::is_void_v<Part>) {
    return std::type_identity<Part>();
  } else if constexpr (requires { typename T::mapped_type; }) {
    return std::type_identity<typename T::mapped_type>();
  } else {
    return std::type_identity<T>();
  }
}
template <class T>
using part_without_tangent_t = typename decltype(part_without_tangent<T>())::type;

template <class T, std::size_t i = 0>
constexpr std::size_t first_field_without_tangent() {
  if constexpr (i == field_count<T>()) {
    return i;
  } else if constexpr (HasTangent<std::remove_cvref_t<std::tuple_element_t<i, FieldsOf<T>>>>) {
    return first_field_without_tangent<T, i + 1>();
  } else {
    return i;
  }
}

// The place of a T in the program: each refuses the type in its own words.
template <class Owner, std::size_t i>
struct InField {
  static constexpr std::string_view kName = field_name<Owner, i>;
  template <class T, class Part>
  using Refusal = FieldHasNoTangent<Owner, FieldName<kName.size()>(kName), T, Part>;
};
template <std::size_t index>
struct InArgument {
  template <class T, class Part>
  using Refusal = ArgumentHasNoTangent<index, T, Part>;
};
struct InResult {
  template <class T, class Part>
  using Refusal = ResultHasNoTangent<T, Part>;
};

// The refusal of T, for its first part without a tangent. Returns only the class, so that few
// templates appear between its message and the operator call.
template <class Where, class T, class Part = T>
constexpr auto refusal_of_type() {
  if constexpr (requires { requires PartTypes<Part>::is_hidden; }) {
    return std::type_identity<FieldsNotVisible<Part, kFieldsFault<Part>>>();
  } else if constexpr (Reflectable<Part> && !IsArray<Part>::value) {
    constexpr std::size_t i = first_field_without_tangent<Part>();
    using Field = std::remove_cvref_t<std::tuple_element_t<i, FieldsOf<Part>>>;
    return refusal_of_type<InField<Part, i>, Field>();
  } else if constexpr (!std::is_same_v<part_without_tangent_t<Part>, Part>) {
    return refusal_of_type<Where, T, part_without_tangent_t<Part>>();
  } else {
    return std::type_identity<typename Where::template Refusal<T, Part>>();
  }
}

// The refusal of arguments that all have tangents but cannot move.
template <class... X>
struct ArgumentsDoNotMove {
  static constexpr bool is_no_integer = !(std::is_integral_v<X> || ...);
  static_assert(is_no_integer,
                "etude: no argument is Differentiable: an integer does not move; write 3.0 for 3");
  static constexpr bool moves = !is_no_integer;
  static_assert(moves,
                "etude: no argument is Differentiable: integers, texts and what is wrapped in "
                "no_derivative() do not move; pass floating-point numbers");
};

// Whether a derivative can be computed by this argument. C arrays are allowed as fields only, since
// functions cannot take them by value. A std::complex is allowed as a tensor element only.
template <class X>
concept LacksTraits = HasTangent<X> && !has_whole_traits<X>();
template <class X>
inline constexpr bool kMayBeArgument = HasTangent<X> && !std::is_array_v<X> && !LacksTraits<X>;
template <class T>
inline constexpr bool kMayBeArgument<std::complex<T>> = false;
template <class... X>
inline constexpr bool kHaveTangents = (kMayBeArgument<X> && ...) && (Differentiable<X> || ...);
// The refusal of arguments, for the first without a tangent.
struct RefusedBefore {};
template <std::size_t index, class X, class... Rest>
constexpr auto refusal_of_argument() {
  if constexpr (kMayBeArgument<X>) {
    return refusal_of_argument<index + 1, Rest...>();
  } else if constexpr (LacksTraits<X>) {
    return std::type_identity<TraitsLackSomething<X>>();
  } else {
    return refusal_of_type<InArgument<index>, X>();
  }
}
template <class... X>
constexpr auto refusal_of() {
  if constexpr (HoldsRefused<X...>) {
    return std::type_identity<RefusedBefore>();
  } else if constexpr (!(kMayBeArgument<X> && ...)) {
    return refusal_of_argument<0, X...>();
  } else {
    return std::type_identity<ArgumentsDoNotMove<X...>>();
  }
}
template <class... X>
using RefusalOf = typename decltype(refusal_of<X...>())::type;

}  // namespace internal
}  // namespace etude
