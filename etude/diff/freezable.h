// SPDX-License-Identifier: Apache-2.0
// Freezable: values that can be frozen, so that gradients and move() leave them as they are, such
// as the layers of a model that is fine-tuned.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "etude/base/structure.h"
#include "etude/diff/containers.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A T that does not move while it is frozen: its tangent is zero then, and no derivative is taken
// by it. Reads like a T.
template <class T>
struct Freezable {
  T value{};
  bool frozen = false;

  constexpr operator const T&() const { return value; }  // NOLINT(google-explicit-constructor)
};

template <internal::HasTangent T>
struct DifferentiableTraits<Freezable<T>> {
  using Composite = void;
  using Tangent = tangent_t<T>;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    if (!x.frozen) {
      internal::each_leaf(x.value, fn);
    } else if constexpr (requires { fn.frozen(x.value); }) {
      fn.frozen(x.value);
    }
  }
  template <class Fn>
  static constexpr Tangent build(const Freezable<T>& x, Fn& fn) {
    return x.frozen ? zero_tangent(x.value) : internal::build_tangent(x.value, fn);
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    if (!x.frozen) internal::zip_leaves(x.value, t, fn);
  }
  static constexpr Tangent zero(const Freezable<T>& x) { return zero_tangent(x.value); }
  static constexpr void move(Freezable<T>& x, const Tangent& by) {
    if (!x.frozen) etude::move(x.value, by);
  }
};

namespace internal {

template <class T>
struct IsFreezable : std::false_type {};
template <class T>
struct IsFreezable<Freezable<T>> : std::true_type {};

// Calls fn(path, x) for each Freezable in a structure.
template <class X, class Fn>
constexpr void each_freezable(X& x, PathBuffer& path, const Fn& fn) {
  const auto part = [&](const auto& component, auto& inner) {
    const std::size_t length = path.enter(component);
    each_freezable(inner, path, fn);
    path.leave(length);
  };
  if constexpr (IsFreezable<X>::value) {
    fn(path.text(), x);
    each_freezable(x.value, path, fn);
  } else if constexpr (requires { typename X::mapped_type; }) {
    for (auto& [key, inner] : x) part(key, inner);
  } else if constexpr (requires {
                         x.begin();
                         typename X::value_type;
                       } &&
                       !std::is_same_v<X, std::string>) {
    std::size_t i = 0;
    if constexpr (Reflectable<std::remove_cvref_t<decltype(*x.begin())>> ||
                  IsFreezable<std::remove_cvref_t<decltype(*x.begin())>>::value) {
      for (auto& inner : x) part(i++, inner);
    }
  } else if constexpr (Reflectable<X>) {
    auto all = fields(x);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (part(field_name<X, I>, std::get<I>(all)), ...);
    }
    (std::make_index_sequence<field_count<X>()>());
  }
}

template <class X>
std::size_t set_frozen(X& model, std::string_view prefix, bool frozen) {
  std::size_t count = 0;
  PathBuffer path;
  each_freezable(model, path, [&](const std::string& at, auto& part) {
    if (!std::string_view(at).starts_with(prefix) && at + '/' != prefix) return;
    part.frozen = frozen;
    ++count;
  });
  return count;
}

}  // namespace internal

// Freezes every Freezable whose path begins with `prefix`: freeze(model, "encoder/"). Gives how
// many there are. Paths are those of for_each_leaf.
template <class X>
std::size_t freeze(X& model, std::string_view prefix = "") {
  return internal::set_frozen(model, prefix, true);
}
// Lets them move again.
template <class X>
std::size_t unfreeze(X& model, std::string_view prefix = "") {
  return internal::set_frozen(model, prefix, false);
}

}  // namespace etude
