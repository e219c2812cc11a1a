// SPDX-License-Identifier: Apache-2.0
// Types and values with another scalar type: std::vector<double> as std::vector<Real>; a class
// template such as Spline<double> as Spline<Real>. scalar_operators.h calls generic code with them.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/fields.h"
#include "etude/diff/active.h"
#include "etude/diff/aggregates.h"
#include "etude/diff/dual.h"
#include "etude/diff/freezable.h"
#include "etude/diff/layer_state.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class T>
struct IsDual : std::false_type {};
template <class T, std::size_t n, class Tag>
struct IsDual<Dual<T, n, Tag>> : std::true_type {};

// Numbers that a derivative can be computed by: plain numbers, and numbers of an outer derivative.
template <class T>
inline constexpr bool kIsScalar = std::floating_point<T> || IsActive<T>::value || IsDual<T>::value;
template <class T>
concept Scalar = kIsScalar<T>;

// X with every From in it replaced by To. If From is void, every scalar is replaced.
template <class X, class From, class To>
struct ReplaceScalar;
template <class X, class From, class To>
using replace_scalar_t = typename ReplaceScalar<X, From, To>::type;

template <class X, class From, class To>
struct ReplaceParts {
  using type = X;
};
template <template <class...> class C, class... Part, class From, class To>
struct ReplaceParts<C<Part...>, From, To> {
  using type = C<replace_scalar_t<Part, From, To>...>;
};
template <class T, std::size_t n, class From, class To>
struct ReplaceParts<std::array<T, n>, From, To> {
  using type = std::array<replace_scalar_t<T, From, To>, n>;
};
template <class T, std::size_t n, class From, class To>
struct ReplaceParts<T[n], From, To> {
  using type = replace_scalar_t<T, From, To>[n];
};
template <class X, class From, class To>
struct ReplaceScalar {
  using type = typename std::conditional_t<
      std::is_same_v<X, From> || (std::is_void_v<From> && Scalar<X>), std::type_identity<To>,
      std::conditional_t<Scalar<X>, std::type_identity<X>, ReplaceParts<X, From, To>>>::type;
};

// The common type of numbers of A and B: the wider type, or the number of the inner derivative, for
// which the other is a constant. void means no number.
template <class A, class B>
constexpr auto common_scalar() {
  if constexpr (std::is_void_v<A>) {
    return std::type_identity<B>();
  } else if constexpr (std::is_void_v<B>) {
    return std::type_identity<A>();
  } else if constexpr (std::floating_point<A> && std::floating_point<B>) {
    return std::type_identity<std::common_type_t<A, B>>();
  } else if constexpr (PlainFor<A, B>) {
    return std::type_identity<B>();
  } else {
    return std::type_identity<A>();
  }
}

// The common type of all scalars in X; void if there is none. `Open` are the structs around X, for
// recursive structs.
template <class X, class... Open>
struct ScalarIn;
template <class Parts, class... Open>
struct ScalarInAll {
  using type = void;
};
template <class Part, class... Rest, class... Open>
struct ScalarInAll<TypeList<Part, Rest...>, Open...> {
  using type = typename decltype(common_scalar<
                                 typename ScalarIn<std::remove_cvref_t<Part>, Open...>::type,
                                 typename ScalarInAll<TypeList<Rest...>, Open...>::type>())::type;
};
template <class X, class... Open>
struct ScalarInParts {
  using type = void;
};
template <Struct X, class... Open>
requires(!kIsOneOf<X, Open...>) struct ScalarInParts<X, Open...>
    : ScalarInAll<typename PartTypes<X>::Types, X, Open...> {
};
template <template <class...> class C, class... Part, class... Open>
requires(!Struct<C<Part...>>) struct ScalarInParts<C<Part...>, Open...>
    : ScalarInAll<TypeList<Part...>, Open...> {
};
template <class T, std::size_t n, class... Open>
struct ScalarInParts<std::array<T, n>, Open...> : ScalarIn<T, Open...> {};
template <class T, std::size_t n, class... Open>
struct ScalarInParts<T[n], Open...> : ScalarIn<T, Open...> {};
template <class T, class... Open>
struct ScalarInParts<NoDerivative<T>, Open...> {
  using type = void;
};
template <class T, class... Open>
struct ScalarInParts<LayerState<T>, Open...> {
  using type = void;
};
template <class X, class... Open>
struct ScalarIn {
  using type = typename std::conditional_t<Scalar<X>, std::type_identity<X>,
                                           ScalarInParts<X, Open...>>::type;
};

template <class X>
concept TupleLike = requires {
  std::tuple_size<X>::value;
};
template <class X>
concept KeyedContainer = requires {
  typename X::mapped_type;
};
template <class X>
concept List = requires(X x, typename X::value_type v) {
  x.push_back(v);
};
// Types with a custom tangent, such as rotations. f is called with the value moved by a zero
// tangent, and the derivative is computed by the numbers of that tangent.
template <class X>
concept Manifold =
    !Scalar<X> && HasTangent<X> && !Composite<X> && !std::is_same_v<tangent_t<X>, NoTangent>;
template <class X>
constexpr bool holds_manifold();
template <class... Part>
constexpr bool hold_manifold(TypeList<Part...>) {
  return (holds_manifold<std::remove_cvref_t<Part>>() || ...);
}
template <class X>
constexpr bool holds_manifold() {
  if constexpr (Scalar<X> || std::is_void_v<typename ScalarIn<X>::type>) {
    return false;
  } else if constexpr (Manifold<X>) {
    return true;
  } else {
    return hold_manifold(typename PartTypes<X>::Types());
  }
}
// Counts the numbers in a tangent.
struct CountNumbers {
  std::size_t& count;
  template <class S>
  constexpr tangent_t<S> operator()(const S& x) {
    if constexpr (Scalar<S>) {
      ++count;
      return x;
    } else if constexpr (std::is_same_v<tangent_t<S>, S>) {
      return zero_tangent(x);  // a tangent without numbers, such as a tensor
    } else {
      static_cast<void>(sizeof(LeafIsErased<S>));
      return build_tangent(zero_tangent(x), *this);
    }
  }
};
template <class X>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class X>
struct IsVariant : std::false_type {};
template <class... T>
struct IsVariant<std::variant<T...>> : std::true_type {};

// The number of numbers in an X if its type determines it; else kUnknownCount.
inline constexpr std::size_t kUnknownCount = 1 << 20;
template <class X>
constexpr std::size_t scalar_count();
template <class... X>
constexpr std::size_t scalar_count_of(std::tuple<X...>*) {
  return (std::size_t{0} + ... + scalar_count<std::remove_cvref_t<X>>());
}
template <class X>
constexpr std::size_t scalar_count() {
  if constexpr (Scalar<X>) {
    return 1;
  } else if constexpr (std::is_void_v<typename ScalarIn<X>::type>) {
    return 0;
  } else if constexpr (IsArray<X>::value) {
    return std::tuple_size_v<X> * scalar_count<typename X::value_type>();
  } else if constexpr (std::is_array_v<X>) {
    return std::extent_v<X> * scalar_count<std::remove_extent_t<X>>();
  } else if constexpr (Manifold<X>) {
    if constexpr (std::is_same_v<tangent_t<X>, X>) return kUnknownCount;
    return scalar_count<tangent_t<X>>();
  } else if constexpr (IsFreezable<X>::value) {
    return kUnknownCount;
  } else if constexpr (TupleLike<X>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (std::size_t{0} + ... + scalar_count<std::tuple_element_t<I, X>>());
    }
    (std::make_index_sequence<std::tuple_size_v<X>>());
  } else if constexpr (Struct<X>) {
    return scalar_count_of(static_cast<FieldsOf<X>*>(nullptr));
  } else {
    return kUnknownCount;
  }
}

// Whether an X, whose type determines its number of numbers, holds nothing else.
template <class X>
constexpr bool holds_only_numbers();
template <class... X>
constexpr bool hold_only_numbers(std::tuple<X...>*) {
  return (holds_only_numbers<std::remove_cvref_t<X>>() && ...);
}
template <class X>
constexpr bool holds_only_numbers() {
  if constexpr (Scalar<X> || std::is_empty_v<X>) {
    return true;
  } else if constexpr (IsArray<X>::value) {
    return holds_only_numbers<typename X::value_type>();
  } else if constexpr (TupleLike<X>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_only_numbers<std::tuple_element_t<I, X>>() && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<X>>());
  } else if constexpr (Struct<X>) {
    return hold_only_numbers(static_cast<FieldsOf<X>*>(nullptr));
  } else {
    return false;
  }
}

template <class Out, class X, class Fn>
constexpr Out map_scalars(const X& x, Fn& fn);
template <class Out, class X, class Fn>
constexpr Out map_struct(const X& x, Fn& fn);
template <class Out, class X, class Fn, std::size_t... I>
constexpr Out map_fields(const X& x, Fn& fn, std::index_sequence<I...>);

template <class Out, class X, class Fn, std::size_t... I>
constexpr Out map_variant(const X& x, Fn& fn, std::index_sequence<I...>) {
  std::optional<Out> out;
  const auto take = [&]<std::size_t i>() {
    if (x.index() != i) return;
    out.emplace(std::in_place_index<i>,
                map_scalars<std::variant_alternative_t<i, Out>>(std::get<i>(x), fn));
  };
  (take.template operator()<I>(), ...);
  return std::move(*out);
}

// x with converted numbers, then moved by the numbers of a zero tangent.
template <class Out, class X, class Fn>
constexpr Out map_manifold(const X& x, Fn& fn) {
  auto convert = [](const auto& v) { return decltype(fn(v))(v); };
  Out out = map_struct<Out>(x, convert);
  const auto zero = zero_tangent(x);
  etude::move(out, map_scalars<tangent_t<Out>>(zero, fn));
  return out;
}

// Whether a struct is constructed from its fields. A struct with listed fields may have another
// constructor, and no struct is constructed from an array.
template <class X>
constexpr bool is_made_of_fields() {
  return []<class... F>(std::tuple<F&...>*) {
    return !kHasListedFields<X> && !(std::is_array_v<F> || ...);
  }(static_cast<FieldsOf<X>*>(nullptr));
}
template <class To, class X, class Fn>
constexpr void assign_scalars(To& to, const X& x, Fn& fn) {
  if constexpr (std::is_array_v<X>) {
    for (std::size_t i = 0; i < std::extent_v<X>; ++i) assign_scalars(to[i], x[i], fn);
  } else {
    to = map_scalars<To>(x, fn);
  }
}
template <class Out, class X, class Fn>
constexpr Out map_struct(const X& x, Fn& fn) {
  constexpr auto kAll = std::make_index_sequence<field_count<X>()>();
  if constexpr (is_made_of_fields<Out>()) {
    return map_fields<Out>(x, fn, kAll);
  } else {
    constexpr bool is_default_constructible = std::is_default_constructible_v<Out>;
    static_assert(is_default_constructible,
                  "etude: a class with ETUDE_FIELDS or with a C array is made by its default "
                  "constructor, then its fields are set; give it one");
    if constexpr (is_default_constructible) {
      Out out{};
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto from = fields(x);
        const auto to = fields(out);
        (assign_scalars(std::get<I>(to), std::get<I>(from), fn), ...);
      }
      (kAll);
      return out;
    } else {
      __builtin_unreachable();
    }
  }
}

template <class Out, class X, class Fn, std::size_t... I>
constexpr Out map_fields(const X& x, Fn& fn, std::index_sequence<I...>) {
  using Parts = decltype(fields(std::declval<Out&>()));
  const auto parts = fields(x);
  return Out{map_scalars<std::remove_reference_t<std::tuple_element_t<I, Parts>>>(
      std::get<I>(parts), fn)...};
}
template <class Out, class X, class Fn, std::size_t... I>
constexpr Out map_slots(const X& x, Fn& fn, std::index_sequence<I...>) {
  const auto slots = x.etude_fields();
  return Out::of_slots(
      map_scalars<std::tuple_element_t<I, typename Out::Slots>>(std::get<I>(slots), fn)...);
}
template <class Out, class X, class Fn, std::size_t... I>
constexpr Out map_tuple(const X& x, Fn& fn, std::index_sequence<I...>) {
  return Out{map_scalars<std::tuple_element_t<I, Out>>(std::get<I>(x), fn)...};
}

// x as an Out, with each scalar replaced by fn(scalar), in the order of its tangent's leaves.
// Numbers inside NoDerivative are converted.
template <class Out, class X, class Fn>
constexpr Out map_scalars(const X& x, Fn& fn) {
  if constexpr (Scalar<X>) {
    return fn(x);
  } else if constexpr (kIsState<X> && std::is_same_v<X, Out>) {
    return x;
  } else if constexpr (IsNoDerivative<X>::value) {
    auto convert = [](const auto& v) { return decltype(fn(v))(v); };
    return Out{
        map_scalars<std::remove_cvref_t<decltype(std::declval<Out&>().value)>>(x.value, convert)};
  } else if constexpr (std::is_void_v<typename ScalarIn<X>::type>) {
    return x;
  } else if constexpr (IsFreezable<X>::value) {
    auto convert = [](const auto& v) { return decltype(fn(v))(v); };
    using Value = std::remove_cvref_t<decltype(std::declval<Out&>().value)>;
    return Out{x.frozen ? map_scalars<Value>(x.value, convert) : map_scalars<Value>(x.value, fn),
               x.frozen};
  } else if constexpr (Manifold<X> && Differentiable<Out> && !std::is_same_v<X, Out>) {
    return map_manifold<Out>(x, fn);
  } else if constexpr (IsVariant<X>::value) {
    return map_variant<Out>(x, fn, std::make_index_sequence<std::variant_size_v<X>>());
  } else if constexpr (IsOptional<X>::value) {
    return x ? Out(map_scalars<typename Out::value_type>(*x, fn)) : Out();
  } else if constexpr (KeyedContainer<X>) {
    Out out;
    for (const auto& [key, value] : x) {
      out.emplace(key, map_scalars<typename Out::mapped_type>(value, fn));
    }
    return out;
  } else if constexpr (IsArray<X>::value) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Out{map_scalars<typename Out::value_type>(x[I], fn)...};
    }
    (std::make_index_sequence<std::tuple_size_v<X>>());
  } else if constexpr (List<X>) {
    Out out;
    if constexpr (requires { out.reserve(x.size()); }) out.reserve(x.size());
    for (const auto& e : x) out.push_back(map_scalars<typename Out::value_type>(e, fn));
    return out;
  } else if constexpr (Valarray<X>) {
    Out out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      out[i] = map_scalars<typename Out::value_type>(x[i], fn);
    }
    return out;
  } else if constexpr (requires { typename X::key_type; }) {
    Out out;
    for (const auto& key : x) out.insert(map_scalars<typename Out::key_type>(key, fn));
    return out;
  } else if constexpr (TupleLike<X>) {
    return map_tuple<Out>(x, fn, std::make_index_sequence<std::tuple_size_v<X>>());
  } else if constexpr (IsTangent<X>::value) {
    return map_slots<Out>(x, fn, std::make_index_sequence<std::tuple_size_v<typename X::Slots>>());
  } else {
    static_assert(Struct<X>,
                  "etude: this type cannot be rebuilt with other scalars; make it a struct "
                  "templated on its scalar, or use etude::Real in it");
    return map_struct<Out>(x, fn);
  }
}

}  // namespace internal
}  // namespace etude
