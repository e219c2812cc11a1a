// SPDX-License-Identifier: Apache-2.0
// Freezable: a value that can be frozen, such as a layer during fine-tuning. Training leaves a
// frozen value unchanged.
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

// A T that move() does not change while `frozen` is true. The gradient of a frozen value is zero,
// and is not computed. A Freezable<T> converts to const T&.
template <class T>
struct Freezable {
  T value{};
  bool frozen = false;

  constexpr operator const T&() const { return value; }
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
    if (!x.frozen) return internal::build_tangent(x.value, fn);
    if constexpr (requires { fn.frozen(x.value); }) fn.frozen(x.value);
    return zero_tangent(x.value);
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

struct AnyFreezable {
  static constexpr bool explains = false;  // traversals of the model report the error
  template <class T>
  static constexpr bool is = IsFreezable<T>::value || RuntimeStructure<T>;
};
// Whether a T can hold a Freezable or a RuntimeStructure.
template <class T>
constexpr bool holds_freezable() {
  return finds_kind<AnyFreezable, Marked::kVisit, T>();
}

// Calls fn(path, part) for each Freezable and each RuntimeStructure inside x. Paths are as in
// for_each_leaf. An outer Freezable is visited before the Freezables inside it.
template <class X, class Fn>
void each_freezable(X& x, const Fn& fn) {
  if constexpr (holds_freezable<std::remove_const_t<X>>()) {
    for_each_struct(x, [&](const std::string& path, auto& part) {
      using Part = std::remove_cvref_t<decltype(part)>;
      if constexpr (IsFreezable<Part>::value || RuntimeStructure<Part>) fn(path, part);
    });
  }
}

// Calls fn(leaf) for each Leaf of the frozen parts of x.
template <class Leaf, class X, class Fn>
void each_frozen_leaf(X& x, const Fn& fn) {
  each_freezable(x, [&](const std::string&, auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (RuntimeStructure<Part>) {
      part.each_part([&](const auto& leaf, auto& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Leaf>) {
          if (leaf.is_frozen && !leaf.is_marked) fn(value);
        }
      });
    } else if constexpr (HasLeaf<Part, Leaf>::value) {
      if (part.frozen) for_each_leaf<Leaf>(part, fn);
    }
  });
}

template <class X>
std::size_t set_frozen(X& model, std::string_view prefix, bool frozen) {
  std::size_t count = 0;
  each_freezable(model, [&](const std::string& at, auto& part) {
    if constexpr (RuntimeStructure<std::remove_cvref_t<decltype(part)>>) {
      count += part.set_frozen(at, prefix, frozen);
    } else {
      if (!std::string_view(at).starts_with(prefix) && at + '/' != prefix) return;
      part.frozen = frozen;
      ++count;
    }
  });
  return count;
}

}  // namespace internal

// Freezes every Freezable whose path begins with `prefix`, as in freeze(model, "encoder/"). In a
// Parts, freezes every leaf whose path begins with `prefix`. Paths are as in for_each_leaf. Returns
// the number of matching Freezables and leaves.
template <class X>
std::size_t freeze(X& model, std::string_view prefix = "") {
  return internal::set_frozen(model, prefix, true);
}
// The same, but unfreezes the Freezables and leaves.
template <class X>
std::size_t unfreeze(X& model, std::string_view prefix = "") {
  return internal::set_frozen(model, prefix, false);
}

}  // namespace etude
