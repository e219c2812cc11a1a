// SPDX-License-Identifier: Apache-2.0
// The core of the Differentiable protocol: tangent types, the zero tangent, moving along a tangent,
// and traversals of the leaves of values. Covers numbers and types that specialise
// DifferentiableTraits. containers.h and aggregates.h add containers and structs. Users include
// differentiable.h instead.
#pragma once

#include <complex>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "etude/base/error.h"
#include "etude/base/float16.h"
#include "etude/base/has_leaf.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The tangent of values that cannot move: integers, bools, enumerations, texts, NoDerivative.
struct NoTangent {
  friend constexpr bool operator==(NoTangent, NoTangent) = default;
};

// Specialise for a type with a custom tangent:
//
//   template <> struct etude::DifferentiableTraits<Rotation> {
//     using Tangent = double;
//     static double zero(const Rotation&) { return 0; }
//     static void move(Rotation& x, double by) { x.turn(by); }
//   };
template <class T>
struct DifferentiableTraits {};

// The tangent type of T; NoTangent if no part of T can move.
template <class T>
using tangent_t = typename DifferentiableTraits<std::remove_cvref_t<T>>::Tangent;

namespace internal {

template <class T>
concept HasTangent = requires {
  typename tangent_t<T>;
};

// A concept, so that compilers evaluate only the first condition for class types.
template <class T>
concept DiscreteScalar = !std::is_class_v<T> &&
                         (std::is_integral_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T>);

// Specialise as true for a type without a derivative that may appear in arguments, such as a shape.
template <class T>
inline constexpr bool kIsDiscreteValue = DiscreteScalar<T>;
template <>
inline constexpr bool kIsDiscreteValue<std::string> = true;
template <>
inline constexpr bool kIsDiscreteValue<std::string_view> = true;
template <>
inline constexpr bool kIsDiscreteValue<const char*> = true;
template <class A>
inline constexpr bool kIsDiscreteValue<std::vector<bool, A>> = true;
template <class R, class... A>
inline constexpr bool kIsDiscreteValue<R (*)(A...)> = true;

// Whether a T has a slot in a tangent although it has no derivative (layer_state.h).
template <class T>
inline constexpr bool kIsState = false;

template <class T, class Around = TypeList<>>
constexpr bool is_discrete();

template <class T, class... Open>
constexpr bool is_one_of(TypeList<Open...>) {
  return kIsOneOf<T, Open...>;
}
template <class T, class... Open>
TypeList<T, Open...> list_with(TypeList<Open...>);

// The list of types that enclose a part. The list is empty for a number, so that
// is_discrete<number> is instantiated once for all structs.
template <bool is_number>
struct AroundPart {
  template <class Around>
  using of = Around;
};
template <>
struct AroundPart<true> {
  template <class>
  using of = TypeList<>;
};
template <class Around, class... Part>
constexpr bool are_discrete(TypeList<Part...>) {
  return sizeof...(Part) > 0 &&
         (is_discrete<std::remove_cvref_t<Part>,
                      typename AroundPart<std::is_arithmetic_v<Part>>::template of<Around>>() &&
          ...);
}

// Whether no part of T can move. `Around` lists the types that enclose T, for recursive types.
template <class T, class Around>
constexpr bool is_discrete() {
  if constexpr (std::is_same_v<T, NoTangent>) {
    return false;  // it is its own tangent
  } else if constexpr (kIsState<T>) {
    return false;
  } else if constexpr (kIsDiscreteValue<T> || IsNoDerivative<T>::value) {
    return true;
  } else if constexpr (std::is_class_v<T> && std::is_empty_v<T>) {
    return true;
  } else if constexpr (is_one_of<T>(Around())) {
    return true;
  } else if constexpr (requires { typename T::mapped_type; }) {
    return is_discrete<typename T::mapped_type, Around>();
  } else if constexpr (requires { typename T::key_type; }) {  // a set
    return is_discrete<typename T::key_type, Around>();
  } else {
    return are_discrete<decltype(list_with<T>(Around()))>(typename PartTypes<T>::Types());
  }
}

template <class T>
concept Discrete = is_discrete<T>();

}  // namespace internal

// T has a tangent that can move it. The concept does not explain why a type fails; the operators
// do.
template <class T>
concept Differentiable = internal::HasTangent<T> && !std::is_same_v<tangent_t<T>, NoTangent>;

// The zero tangent, with the same shapes as x.
template <internal::HasTangent T>
constexpr tangent_t<T> zero_tangent(const T& x) {
  return DifferentiableTraits<T>::zero(x);
}

// Moves x along `by`, in place and without allocating.
//
// throws: kInvalidArgument if lengths or shapes differ.
template <internal::HasTangent T>
constexpr void move(T& x, const tangent_t<T>& by) {
  DifferentiableTraits<T>::move(x, by);
}

namespace internal {
template <class T, class Given>
struct TangentDoesNotFit {
  static constexpr bool is_tangent = std::is_convertible_v<Given, tangent_t<T>>;
  static_assert(is_tangent,
                "etude: move(x, by) goes along a tangent of x: `by` is one of another type; a "
                "tangent has the type etude::tangent_t<X>, as a gradient by x and zero_tangent(x)");
};
}  // namespace internal
template <internal::HasTangent T, class Given>
requires(!std::is_same_v<Given, tangent_t<T>> &&
         !std::is_convertible_v<const Given&, tangent_t<T>>) constexpr void move(T&, const Given&) {
  static_cast<void>(sizeof(internal::TangentDoesNotFit<T, Given>));
}

namespace internal {
template <class T>
struct NumberTraits {
  using Tangent = T;
  static constexpr T zero(const T&) { return T(0.0f); }
  static constexpr void move(T& x, const T& by) { x = static_cast<T>(x + by); }
};
}  // namespace internal

// A number is its own tangent.
template <std::floating_point T>
struct DifferentiableTraits<T> : internal::NumberTraits<T> {};
template <>
struct DifferentiableTraits<Float16> : internal::NumberTraits<Float16> {};
template <>
struct DifferentiableTraits<BFloat16> : internal::NumberTraits<BFloat16> {};
template <class T>
struct DifferentiableTraits<std::complex<T>> {
  using Tangent = std::complex<T>;
  static constexpr Tangent zero(const Tangent&) { return {}; }
  static constexpr void move(Tangent& x, const Tangent& by) { x += by; }
};
template <>
struct DifferentiableTraits<NoTangent> {
  using Tangent = NoTangent;
  static constexpr NoTangent zero(NoTangent) { return {}; }
  static constexpr void move(NoTangent&, NoTangent) {}
};
template <internal::Discrete T>
struct DifferentiableTraits<T> {
  using Tangent = NoTangent;
  static constexpr NoTangent zero(const T&) { return {}; }
  static constexpr void move(T&, NoTangent) {}
};

namespace internal {

// A type made of parts. Its traits visit the parts. All other types with a tangent are leaves.
template <class T>
concept Composite = requires {
  typename DifferentiableTraits<std::remove_cv_t<T>>::Composite;
};

// Calls fn(leaf) for each leaf of x, in order. Skips parts without a tangent.
template <class T, class Fn>
constexpr void each_leaf(T& x, Fn& fn) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<tangent_t<Plain>, NoTangent>) {
  } else if constexpr (Composite<Plain>) {
    DifferentiableTraits<Plain>::each(x, fn);
  } else {
    fn(x);
  }
}

// Returns the tangent of x that has the leaves fn(leaf of x). If fn has enter() and leave(), they
// are called before and after the fields of each struct.
template <class T, class Fn>
constexpr tangent_t<T> build_tangent(const T& x, Fn& fn) {
  if constexpr (std::is_same_v<tangent_t<T>, NoTangent>) {
    return {};
  } else if constexpr (Composite<T>) {
    return DifferentiableTraits<T>::build(x, fn);
  } else {
    return fn(x);
  }
}

// Calls fn(leaf of x, leaf of t) for each leaf, in order. t is a tangent of x.
// throws: kInvalidArgument if lengths, keys or alternatives differ.
template <class T, class U, class Fn>
constexpr void zip_leaves(T& x, U& t, Fn& fn) {
  using Plain = std::remove_cv_t<T>;
  static_assert(std::is_same_v<tangent_t<Plain>, std::remove_cv_t<U>>);
  if constexpr (std::is_same_v<tangent_t<Plain>, NoTangent>) {
  } else if constexpr (Composite<Plain>) {
    DifferentiableTraits<Plain>::zip(x, t, fn);
  } else {
    fn(x, t);
  }
}

// The leaf functions of zero and move. They are named types, since every lambda would instantiate
// the traversals again.
struct ZeroOfLeaf {
  template <class Leaf>
  constexpr tangent_t<Leaf> operator()(const Leaf& leaf) const {
    return zero_tangent(leaf);
  }
};
struct MoveOfLeaf {
  template <class Leaf, class U>
  constexpr void operator()(Leaf& leaf, const U& by) const {
    etude::move(leaf, by);
  }
  template <class X, class New>
  constexpr void state(X& x, const New& now) const {
    x.take(now);
  }
};

// Implements zero and move of a composite with the traversals `Leaves`.
template <class T, class Leaves>
struct MoveByLeaves {
  using Composite = void;
  static constexpr auto zero(const T& x) {
    constexpr ZeroOfLeaf kEach;
    return Leaves::build(x, kEach);
  }
  template <class U>
  static constexpr void move(T& x, const U& by) {
    constexpr MoveOfLeaf kEach;
    Leaves::zip(x, by, kEach);
  }
};

// Which of the required members a user-written DifferentiableTraits has.
template <class T>
struct TraitsOf {
  using U = tangent_t<T>;
  static constexpr bool has_default = std::is_default_constructible_v<U>;
  static constexpr bool has_sum =
      std::is_same_v<U, NoTangent> || Composite<U> || requires(U & a, const U& b) {
    a += b;
  };
  static constexpr bool has_zero = requires(const T& x) {
    { DifferentiableTraits<T>::zero(x) } -> std::convertible_to<U>;
  };
  static constexpr bool has_move = requires(T & x, const U& by) {
    DifferentiableTraits<T>::move(x, by);
  };
};
template <class T>
constexpr bool has_whole_traits() {
  if constexpr (std::floating_point<T> || Composite<T>) {
    return true;
  } else {
    using Traits = TraitsOf<T>;
    return Traits::has_default && Traits::has_sum && Traits::has_zero && Traits::has_move;
  }
}
template <class T>
struct TraitsLackSomething {
  using Traits = TraitsOf<T>;
  static_assert(Traits::has_default,
                "etude: DifferentiableTraits<T>::Tangent must be default constructible");
  static_assert(Traits::has_sum, "etude: DifferentiableTraits<T>::Tangent needs operator+=");
  static_assert(Traits::has_zero,
                "etude: DifferentiableTraits<T> needs zero(x), which returns a Tangent");
  static_assert(Traits::has_move, "etude: DifferentiableTraits<T> needs move(x, tangent)");
};

// Whether T is a leaf whose differential operators are in another folder, such as a tensor.
// Specialise as true.
template <class T>
inline constexpr bool kIsOtherLeaf = false;

// Whether T is a type-erased value. Specialise as true.
template <class T>
inline constexpr bool kIsErased = false;
template <class T>
struct LeafIsErased {
  static constexpr bool is_shown = !kIsErased<T>;
  static_assert(is_shown,
                "etude: no derivative with respect to an AnyDifferentiable exists, since it hides "
                "its value; pass the value itself, or wrap it in etude::NoDerivative<>");
};

struct OtherLeaf {
  static constexpr bool explains = false;  // the operators explain
  template <class T>
  static constexpr bool is = kIsOtherLeaf<T>;
};
// Whether a T can hold a leaf with kIsOtherLeaf outside of NoDerivative.
template <class T>
constexpr bool holds_other_leaf() {
  return finds_kind<OtherLeaf, Marked::kSkip, T>();
}

// The same, but a T of the form NoDerivative<X> counts like X.
template <class T>
constexpr bool mentions_other_leaf() {
  if constexpr (requires(T x) {
                  requires IsNoDerivative<T>::value;
                  x.value;
                }) {
    return holds_other_leaf<std::remove_cvref_t<decltype(std::declval<T&>().value)>>();
  } else {
    return holds_other_leaf<T>();
  }
}

[[noreturn]] inline void throw_tangent_length(std::size_t value, std::size_t tangent) {
  throw Error(ErrorCode::kInvalidArgument, "a tangent of length " + std::to_string(tangent) +
                                               " does not fit a value of length " +
                                               std::to_string(value) + ". Make both equally long");
}
// A key as text for a message; empty if the key has no text form.
template <class Key>
std::string key_text(const Key& key) {
  if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
    return std::string(std::string_view(key));
  } else if constexpr (std::is_enum_v<Key>) {
    return std::to_string(static_cast<std::underlying_type_t<Key>>(key));
  } else if constexpr (std::is_arithmetic_v<Key>) {
    return std::to_string(key);
  } else {
    return {};
  }
}
[[noreturn]] inline void throw_tangent_key(std::string_view key) {
  throw Error(ErrorCode::kInvalidArgument, "the value has no key '" + std::string(key) +
                                               "', which its tangent has. Make the tangent with "
                                               "zero_tangent");
}
[[noreturn]] inline void throw_tangent_holds() {
  throw Error(ErrorCode::kInvalidArgument,
              "the value and its tangent do not hold the same alternative of an optional or "
              "variant. Make the tangent with zero_tangent");
}

}  // namespace internal
}  // namespace etude
