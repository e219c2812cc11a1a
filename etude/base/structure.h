// SPDX-License-Identifier: Apache-2.0
// Visits the leaves of a structure: anything built from plain structs (fields.h), std::vector,
// std::deque, std::list, std::valarray, std::array, C arrays, std::optional, maps with string keys,
// std::tuple, std::pair, std::variant, and etude::Parts. Used by checkpoints, parameter groups,
// tangents and traced functions, with Tensor as the leaf. Parts that cannot hold a leaf are skipped
// at compile time. To visit two structures in parallel, use fields.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/fields.h"
#include "etude/base/has_leaf.h"
#include "etude/version.h"

namespace ETUDE_API etude {

namespace internal {

// A structure whose parts are known only at run time (parts/parts.h). x.each_part(fn) calls
// fn(leaf, value) for each value. leaf.path is the path of the value inside x. leaf.is_marked is
// true for a NoDerivative value.
template <class T>
concept RuntimeStructure = requires {
  typename T::RuntimeStructure;
};

// The path of the visited part, "layers/0/weight", in one buffer that grows and shrinks.
class PathBuffer {
 public:
  // Appends a component, and returns the length to pass to `leave`.
  std::size_t enter(std::string_view component) {
    const std::size_t length = text_.size();
    if (length > 0) text_ += '/';
    text_ += component;
    return length;
  }
  std::size_t enter(std::size_t index) { return enter(std::to_string(index)); }
  void leave(std::size_t length) { text_.resize(length); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A PathBuffer that stays empty unless paths are requested, so that one traversal serves calls with
// and without paths.
class OptionalPath {
 public:
  explicit OptionalPath(bool is_wanted) : is_wanted_(is_wanted) {}
  template <class Component>
  std::size_t enter(const Component& component) {
    return is_wanted_ ? path_.enter(component) : 0;
  }
  void leave(std::size_t length) {
    if (is_wanted_) path_.leave(length);
  }
  const std::string& text() const { return path_.text(); }

 private:
  bool is_wanted_;
  PathBuffer path_;
};

// Replaces PathBuffer in traversals without paths. The compiler removes all of its code.
struct NoPath {
  template <class Component>
  constexpr std::size_t enter(const Component&) {
    return 0;
  }
  constexpr void leave(std::size_t) {}
};

// Returns the entries of an unordered map, sorted by key. So the order does not depend on hashes.
template <class Map>
constexpr auto entries_by_key(Map& map) {
  std::vector<decltype(&*map.begin())> entries;
  for (auto& entry : map) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  return entries;
}

template <class Leaf, Marked marked, class Path, class Fn>
class LeafVisitor {
 public:
  explicit constexpr LeafVisitor(Fn& fn, Path path = Path()) : fn_(fn), path_(std::move(path)) {}

  // X may be const. The overloads of look_into() below are for containers; the last overload is for
  // structs.
  template <class X>
  constexpr void visit(X& x) {
    using T = std::remove_const_t<X>;
    if constexpr (std::is_same_v<T, Leaf>) {
      if constexpr (std::is_same_v<Path, NoPath>) {
        fn_(x);
      } else {
        fn_(path_.text(), x);
      }
    } else if constexpr (HasLeaf<T, Leaf, marked>::value) {
      if constexpr (std::is_same_v<Leaf, EveryStruct> && Reflectable<T>) fn_(path_.text(), x);
      look_into(x, static_cast<T*>(nullptr));
    }
  }

 private:
  template <class Component, class X>
  constexpr void visit_part(const Component& component, X& x) {
    if constexpr (HasLeaf<X, Leaf, marked>::value) {
      const std::size_t length = path_.enter(component);
      visit(x);
      path_.leave(length);
    }
  }

  template <class X>
  constexpr void visit_range(X& x) {
    std::size_t i = 0;
    for (auto& element : x) visit_part(i++, element);
  }

  template <class X, std::size_t... I>
  constexpr void visit_tuple(X& x, std::index_sequence<I...>) {
    (visit_part(I, std::get<I>(x)), ...);
  }

  template <class X, std::size_t... I>
  constexpr void visit_fields(X& x, std::index_sequence<I...>) {
    [[maybe_unused]] auto all = fields(x);
    (visit_part(field_name<std::remove_const_t<X>, I>, std::get<I>(all)), ...);
  }

  template <class X, class T, class A>
  constexpr void look_into(X& x, std::vector<T, A>*) {
    visit_range(x);
  }
  template <class X, class T, class A>
  constexpr void look_into(X& x, std::deque<T, A>*) {
    visit_range(x);
  }
  template <class X, class T, std::size_t n>
  constexpr void look_into(X& x, std::array<T, n>*) {
    visit_range(x);
  }
  template <class X, class T, std::size_t n>
  constexpr void look_into(X& x, T (*)[n]) {
    visit_range(x);
  }
  template <class X, class T>
  requires(GrowingSequence<T> || Valarray<T>) constexpr void look_into(X& x, T*) { visit_range(x); }
  template <class X, class T>
  constexpr void look_into(X& x, std::optional<T>*) {
    if (x.has_value()) visit(*x);
  }
  template <class X, class T, class C, class A>
  constexpr void look_into(X& x, std::map<std::string, T, C, A>*) {
    for (auto& [key, value] : x) visit_part(key, value);
  }
  template <class X, class T, class H, class E, class A>
  constexpr void look_into(X& x, std::unordered_map<std::string, T, H, E, A>*) {
    for (auto* entry : entries_by_key(x)) visit_part(entry->first, entry->second);
  }
  template <class X, class... T>
  constexpr void look_into(X& x, std::tuple<T...>*) {
    visit_tuple(x, std::index_sequence_for<T...>());
  }
  template <class X, class A, class B>
  constexpr void look_into(X& x, std::pair<A, B>*) {
    visit_tuple(x, std::make_index_sequence<2>());
  }
  template <class X, class... T>
  constexpr void look_into(X& x, std::variant<T...>*) {
    if (!x.valueless_by_exception()) std::visit([this](auto& held) { this->visit(held); }, x);
  }
  template <class X, class T>
  constexpr void look_into(X& x, NoDerivative<T>*) {
    visit(x.value);
  }
  template <class X, RuntimeStructure T>
  constexpr void look_into(X& x, T*) {
    if constexpr (std::is_same_v<Leaf, EveryStruct>) {
      fn_(path_.text(), x);
    } else {
      x.each_part([this](const auto& leaf, auto& value) {
        if (leaf.is_marked && marked == Marked::kSkip) return;
        if (leaf.path.empty()) {
          this->visit(value);
        } else {
          this->visit_part(leaf.path, value);
        }
      });
    }
  }
  template <class X>
  constexpr void look_into(X& x, void*) {
    visit_fields(x, std::make_index_sequence<field_count<std::remove_const_t<X>>()>());
  }

  Fn& fn_;
  [[no_unique_address]] Path path_;
};

struct AnyRuntimeStructure {
  static constexpr bool explains = false;
  template <class T>
  static constexpr bool is = RuntimeStructure<T>;
};
// Whether a T can hold a RuntimeStructure, whose leaves are checked at run time.
template <class T>
constexpr bool holds_runtime_structure() {
  return finds_kind<AnyRuntimeStructure, Marked::kVisit, std::remove_cvref_t<T>>();
}

// As for_each_leaf, with `fn(path, leaf)`. The path is empty unless `with_paths` is true.
//
// cost: one pass; without paths nothing is allocated.
template <class Leaf, class X, class Fn>
void for_each_leaf_with(bool with_paths, X& x, Fn&& fn) {
  static_assert(HasLeaf<X, Leaf>::value, "etude: this structure can hold no such leaf");
  LeafVisitor<Leaf, Marked::kSkip, OptionalPath, Fn>(fn, OptionalPath(with_paths)).visit(x);
}

}  // namespace internal

// Calls `fn(path, leaf)` or `fn(leaf)` for each leaf of x, in order. Leaves are const if x is
// const.
//
// A path joins field names, map keys and positions with '/': "conv1/filter", "layers/0/weight". An
// optional, a variant and NoDerivative add no component. If x itself is a leaf, its path is "". Map
// keys are not escaped, so a key with a '/' reads like two components. The path is valid during the
// call only.
//
//   for_each_leaf<Tensor>(model, [](const std::string& path, Tensor& t) { ... });
//   for_each_leaf<Tensor, Marked::kVisit>(model, [](Tensor& t) { ... });
//
// throws: exceptions of fn.
// cost:   one pass; without a path nothing is allocated.
template <class Leaf, Marked marked = Marked::kSkip, class X, class Fn>
constexpr void for_each_leaf(X& x, Fn&& fn) {
  using Argument = std::conditional_t<std::is_const_v<X>, const Leaf&, Leaf&>;
  static_assert(HasLeaf<X, Leaf, marked>::value, "etude: this structure can hold no such leaf");
  if constexpr (std::is_invocable_v<Fn&, const std::string&, Argument>) {
    internal::LeafVisitor<Leaf, marked, internal::PathBuffer, Fn>(fn).visit(x);
  } else {
    static_assert(std::is_invocable_v<Fn&, Argument>,
                  "etude: the function must take (const std::string& path, Leaf&) or (Leaf&)");
    internal::LeafVisitor<Leaf, marked, internal::NoPath, Fn>(fn).visit(x);
  }
}

// Calls `fn(path, part)` for x and for each struct inside x that a traversal visits, including
// structs without leaves. A struct comes before its fields. `fn` must accept any type.
template <class X, class Fn>
constexpr void for_each_struct(X& x, Fn&& fn) {
  internal::LeafVisitor<internal::EveryStruct, Marked::kVisit, internal::PathBuffer, Fn>(fn).visit(
      x);
}

// Returns a copy of x with each leaf replaced by `fn(path, leaf)` or `fn(leaf)`.
//
// The leaf is passed as an rvalue. So a function that takes the leaf by value may reuse its storage
// if x was moved in.
//
// throws: exceptions of fn.
// cost: a copy of x, or none if x is moved in, and one pass.
template <class Leaf, Marked marked = Marked::kSkip, class X, class Fn>
[[nodiscard]] constexpr X map_leaves(X x, Fn&& fn) {
  if constexpr (std::is_invocable_v<Fn&, const std::string&, Leaf&&>) {
    for_each_leaf<Leaf, marked>(
        x, [&fn](const std::string& path, Leaf& leaf) { leaf = fn(path, std::move(leaf)); });
  } else {
    for_each_leaf<Leaf, marked>(x, [&fn](Leaf& leaf) { leaf = fn(std::move(leaf)); });
  }
  return x;
}

}  // namespace etude
