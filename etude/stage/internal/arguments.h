// SPDX-License-Identifier: Apache-2.0
// The arguments of a staged function, flattened: tensors become inputs of a graph; everything else
// is fixed in the graph and decides which graph serves a call. One flattening collects both.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/base/has_leaf.h"
#include "etude/base/internal/inline_vector.h"
#include "etude/base/internal/type_name.h"
#include "etude/base/structure.h"
#include "etude/core/dtype.h"
#include "etude/core/tensor.h"
#include "etude/parts/parts.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {

namespace internal {

// A host value that is compared by its own ==. Borrowed while a call looks for its graph; owned by
// the graph that was made for it.
struct HostValue {
  using Equal = bool (*)(const void*, const void*);
  using Copy = std::shared_ptr<const void> (*)(const void*);
  using Gone = bool (*)(const void*);
  const void* value = nullptr;  // from a call, or the result of `copy`
  Equal equal = nullptr;        // of a given and a kept value; one function per type
  Copy copy = nullptr;
  // Whether no later call can pass an equal value, asked of a kept value. Null: a call always can.
  Gone is_gone = nullptr;
};

// A sparse tensor of a call, represented by its indices and its values.
struct SlicesArgument {
  Tensor* whole;
  std::size_t first;  // index of the first of its two tensors in the call
  IndexedSlices rows;
};

// The flattened arguments of one call. Tensors are borrowed.
struct Arguments {
  // In flattening order. A call writes the tensors of in-out arguments, and of the copies that a
  // trace uses.
  InlineVector<Tensor*, 6> tensors;
  InlineVector<uint64_t, 8> words;  // numbers, lengths, texts
  InlineVector<HostValue, 2> objects;
  InlineVector<Variable*, 2> variables;  // equal words: the same object
  // Whether a sparse tensor is split into its indices and values; else it counts as a dense tensor.
  bool splits_slices = false;
  std::shared_ptr<std::deque<SlicesArgument>> rows;  // null: none

  IndexedSlices& add_slices(Tensor& x);
  // Puts the current values of its two tensors into each sparse tensor. `which`: one byte per
  // tensor of the call, true to include it; empty includes all.
  void join_slices(const std::vector<uint8_t>& which = {}) const;
  // Whether tensors i and k are the same object, or belong to one sparse tensor that was passed
  // twice.
  bool are_same(std::size_t i, std::size_t k) const;
};

// The names of the leaves, for messages: "model/layers/0/weight". Made only while a graph is made.
struct ArgumentNames {
  std::vector<std::string> tensors, words, objects;
  std::vector<std::string> values;  // text of the words: "true", "'relu'", "3 items"
};
std::string value_text(bool value);
std::string value_text(int64_t value);
std::string value_text(double value);

// A class whose ETUDE_FIELDS omits members lists here the values that distinguish its calls:
//   auto host_values() const { return std::tie(stride_, activation_); }
// or, the same, ETUDE_HOST_VALUES(stride_, activation_);
template <class T>
concept HasHostValues = FieldAccess::has_host_values<T>();
// A host value with a number as its key: values of equal keys behave the same.
template <class T>
concept HasHostKey = requires(const T& x) {
  { x.host_key() } -> std::convertible_to<uint64_t>;
};

// Whether the listed fields are all members of the class: their sizes and alignments fill it.
template <class T>
constexpr bool fields_fill() {
  return []<class... F>(std::tuple<F&...>*) {
    std::size_t end = 0, most = 1;
    ((end = (end + alignof(F) - 1) / alignof(F) * alignof(F) + sizeof(F),
      most = std::max(most, alignof(F))),
     ...);
    end = std::max<std::size_t>((end + most - 1) / most * most, 1);
    return end == sizeof(T);
  }(static_cast<decltype(fields(std::declval<T&>()))*>(nullptr));
}
template <class T>
concept FunctionPointer = std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>;

// Flattens arguments. `Names` is NoNames for calls that only look for their graph.
struct NoNames {
  struct Scope {};
  template <class Component>
  Scope enter(const Component&) {
    return {};
  }
  template <class T>
  void value(const T&) {}
  void tensor() {}
  void word() {}
  void object() {}
};

class PathNames {
 public:
  explicit PathNames(ArgumentNames& names) : names_(names) {}
  struct Scope {
    PathNames& names;
    std::size_t length;
    ~Scope() {
      names.path_.resize(length);
      names.value_.clear();
    }
  };
  [[nodiscard]] Scope enter(std::string_view component) {
    const std::size_t length = path_.size();
    value_.clear();
    if (length > 0) path_ += '/';
    path_ += component;
    return {*this, length};
  }
  [[nodiscard]] Scope enter(std::size_t i) { return enter(std::to_string(i)); }
  // Notes the text of the host value that the next words encode.
  template <class T>
  void value(const T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = value_text(x);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      value_ = value_text(static_cast<int64_t>(x));
    } else if constexpr (std::is_floating_point_v<T>) {
      value_ = value_text(static_cast<double>(x));
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      value_ = "'" + std::string(x) + "'";
    } else {
      value_.clear();
    }
  }
  void text(std::string text) { value_ = std::move(text); }
  void tensor() { names_.tensors.push_back(path_); }
  void word() {
    names_.words.push_back(path_);
    names_.values.push_back(value_);
  }
  void object() { names_.objects.push_back(path_); }

 private:
  ArgumentNames& names_;
  std::string path_, value_;
};

template <class Names>
class ArgumentFlattener {
 public:
  ArgumentFlattener(Arguments& to, Names names) : to_(to), names_(std::move(names)) {}

  template <class X>
  void argument(std::string_view name, X& x) {
    [[maybe_unused]] const auto scope = names_.enter(name);
    flatten(x);
  }

 private:
  // A flattening is the same for const X and X: one function serves both.
  template <class X>
  void flatten(X& given) {
    using T = std::remove_const_t<X>;
    T& x = const_cast<T&>(given);
    if constexpr (std::is_same_v<T, Tensor>) {
      tensor(x);
    } else if constexpr (std::is_same_v<T, Variable>) {
      variable(x);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || FunctionPointer<T>) {
      number(x);
    } else if constexpr (HasHostKey<T>) {
      word(static_cast<uint64_t>(x.host_key()));
    } else {
      parts(x, static_cast<T*>(nullptr));
    }
  }

  void tensor(Tensor& x) {
    if (to_.splits_slices && x.has_value() && TensorAccess::is_sparse(x)) [[unlikely]] {
      rows(x);
      return;
    }
    to_.tensors.push_back(&x);
    names_.tensor();
  }
  // The positions and the dense shape of sparse rows are fixed in the graph.
  void rows(Tensor& x) {
    IndexedSlices& slices = to_.add_slices(x);
    number(to_.tensors.size());
    part("indices", slices.indices);
    part("values", slices.values);
    for (const int64_t size : slices.dense_shape.sizes()) number(size);
  }
  void variable(const Variable& x) {
    std::size_t first = 0;
    while (first < to_.variables.size() && to_.variables[first]->ref() != x.ref()) ++first;
    word(first);
    to_.variables.push_back(const_cast<Variable*>(&x));
  }
  void word(uint64_t bits) {
    to_.words.push_back(bits);
    names_.word();
  }
  // Numbers are compared by their bits.
  template <class T>
  void number(const T& x) {
    static_assert(sizeof(T) <= 16);
    names_.value(x);
    uint64_t bits[2] = {};
    if constexpr (std::is_same_v<T, long double>) {
      std::memcpy(bits, &x, 10);  // the rest is padding
    } else {
      std::memcpy(bits, &x, sizeof(T));
    }
    word(bits[0]);
    if constexpr (sizeof(T) > 8) word(bits[1]);
  }
  void text(std::string_view x) {
    names_.value(x);
    word(x.size());
    for (std::size_t i = 0; i < x.size(); i += 8) {
      uint64_t bits = 0;
      std::memcpy(&bits, x.data() + i, std::min<std::size_t>(8, x.size() - i));
      word(bits);
    }
  }
  template <class Component, class X>
  void part(const Component& component, X& x) {
    [[maybe_unused]] const auto scope = names_.enter(component);
    flatten(x);
  }
  template <class X>
  void range(X& x) {
    word(x.size());
    std::size_t i = 0;
    for (auto& element : x) part(i++, element);
  }
  template <class X>
  void object(const X& x) {
    to_.objects.push_back({&x,
                           [](const void* given, const void* kept) {
                             return static_cast<bool>(*static_cast<const X*>(given) ==
                                                      *static_cast<const X*>(kept));
                           },
                           [](const void* value) -> std::shared_ptr<const void> {
                             return std::make_shared<const X>(*static_cast<const X*>(value));
                           }});
    names_.object();
  }

  // Compared by identity and held weakly: no graph keeps the object alive, and a new object at its
  // address is a different object.
  template <class X, class T>
  void parts(X& x, std::shared_ptr<T>*) {
    to_.objects.push_back({&x,
                           [](const void* given, const void* kept) {
                             return !static_cast<const std::weak_ptr<T>*>(kept)->owner_before(
                                        *static_cast<const std::shared_ptr<T>*>(given)) &&
                                    !static_cast<const std::shared_ptr<T>*>(given)->owner_before(
                                        *static_cast<const std::weak_ptr<T>*>(kept));
                           },
                           [](const void* value) -> std::shared_ptr<const void> {
                             return std::make_shared<const std::weak_ptr<T>>(
                                 *static_cast<const std::shared_ptr<T>*>(value));
                           },
                           [](const void* kept) {
                             const auto& object = *static_cast<const std::weak_ptr<T>*>(kept);
                             const std::weak_ptr<T> none;  // stored for a null pointer
                             return object.expired() &&
                                    (object.owner_before(none) || none.owner_before(object));
                           }});
    names_.object();
  }
  template <class X, class T>
  void parts(X& x, std::complex<T>*) {
    number(x.real());
    number(x.imag());
  }
  template <class X>
  void parts(X& x, const char**) {
    text(x);
  }
  template <class X>
  void parts(X& x, std::string*) {
    text(x);
  }
  template <class X>
  void parts(X& x, std::string_view*) {
    text(x);
  }
  template <class X, class T, class A>
  void parts(X& x, std::vector<T, A>*) {
    if constexpr (std::is_same_v<T, bool>) {
      word(x.size());
      for (const bool bit : x) word(bit);
    } else {
      range(x);
    }
  }
  template <class X, class T, class A>
  void parts(X& x, std::deque<T, A>*) {
    range(x);
  }
  template <class X, class T, std::size_t n>
  void parts(X& x, std::array<T, n>*) {
    range(x);
  }
  template <class X, class T>
  void parts(X& x, std::optional<T>*) {
    word(x.has_value());
    if (x.has_value()) flatten(*x);
  }
  template <class X, class T, class C, class A>
  void parts(X& x, std::map<std::string, T, C, A>*) {
    word(x.size());
    for (auto& [key, value] : x) {
      text(key);
      part(key, value);
    }
  }
  template <class X, class T, class H, class E, class A>
  void parts(X& x, std::unordered_map<std::string, T, H, E, A>*) {
    word(x.size());
    for (auto* entry : entries_by_key(x)) {
      text(entry->first);
      part(entry->first, entry->second);
    }
  }
  template <class X, class... T>
  void parts(X& x, std::tuple<T...>*) {
    tuple(x, std::index_sequence_for<T...>());
  }
  template <class X, class A, class B>
  void parts(X& x, std::pair<A, B>*) {
    tuple(x, std::make_index_sequence<2>());
  }
  template <class X, std::size_t... I>
  void tuple(X& x, std::index_sequence<I...>) {
    (part(I, std::get<I>(x)), ...);
  }
  template <class X, class... T>
  void parts(X& x, std::variant<T...>*) {
    word(x.index());
    if (!x.valueless_by_exception()) std::visit([this](auto& held) { this->flatten(held); }, x);
  }
  template <class T>
  void parts(T& x, void*) {
    whole(x);
  }
  // Not inline, so that a program need not instantiate the functions that the library instantiates.
  template <class T>
  void whole(T& x);
  template <class X>
  void runtime_structure(X& x) {
    if constexpr (!std::is_same_v<Names, NoNames>) names_.text(x.form()->to_string());
    word(reinterpret_cast<std::uintptr_t>(x.form()));
    if constexpr (requires { x.function_key(); }) word(x.function_key());
    x.each_part([this](const FormLeaf& leaf, auto& value) {
      if (leaf.path.empty()) {
        this->flatten(value);
      } else {
        this->part(leaf.path, value);
      }
    });
  }
  template <class X, std::size_t... I>
  void fields_of(X& x, std::index_sequence<I...>) {
    [[maybe_unused]] auto all = fields(x);
    (part(field_name<std::remove_const_t<X>, I>, std::get<I>(all)), ...);
  }

  Arguments& to_;
  [[no_unique_address]] Names names_;
};

template <class Names>
template <class T>
void ArgumentFlattener<Names>::whole(T& x) {
  if constexpr (IsNoDerivative<T>::value) {
    flatten(x.value);
  } else if constexpr (std::is_same_v<T, Described>) {
    if constexpr (!std::is_same_v<Names, NoNames>) names_.text(x.text());
    x.key([this](uint64_t bits) { this->word(bits); },
          [this](const Described& held) { this->object(held); });
  } else if constexpr (RuntimeStructure<T>) {
    runtime_structure(x);
  } else if constexpr (Reflectable<T>) {
    fields_of(x, std::make_index_sequence<field_count<T>()>());
    if constexpr (HasHostValues<T>) {
      const auto others = FieldAccess::host_values(x);
      [[maybe_unused]] const auto scope = names_.enter("host_values");
      flatten(others);
    } else {
      static_assert(!kHasListedFields<T> || fields_fill<T>(),
                    "etude: function(): this class has members that its ETUDE_FIELDS leave out, "
                    "and calls with others must not get the same graph. Give it `auto "
                    "host_values() const { return std::tie(other_, members_); }`");
    }
  } else if constexpr (std::equality_comparable<T> && std::copy_constructible<T>) {
    object(x);
  } else {
    // reported once
    constexpr bool has_key = std::is_empty_v<T> || !std::is_same_v<Names, NoNames>;
    static_assert(has_key,
                  "etude: function(): an argument is a tensor, a number, a text, an enum, a "
                  "container or a plain struct of these, or has ==. This type is none of these: "
                  "pass what the function needs of it, or capture it");
  }
}

// Flattening of a struct of the library, compiled into the library: declared `extern` after the
// struct and instantiated in a source file.
#define ETUDE_INTERNAL_FLATTEN(linkage, T)                     \
  linkage template void ArgumentFlattener<NoNames>::whole(T&); \
  linkage template void ArgumentFlattener<PathNames>::whole(T&)

ETUDE_INTERNAL_FLATTEN(extern, etude::Parts);

}  // namespace internal
}  // namespace etude
