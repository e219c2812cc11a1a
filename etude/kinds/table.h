// SPDX-License-Identifier: Apache-2.0
// The table of kinds, and its rows. A row instantiates two functions: one makes an object from
// checked values, the other lists names, types and defaults. All other code is compiled once. For
// the sources *_rows.cc and resolve.cc.
//
//   Rows layers(table, Group::kLayer);
//   layers.add<nn::Dense, nn::DenseOptions, int64_t, int64_t>("nn.Dense", {"in", "out"}, {3, 4});
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/option_ranges.h"
#include "etude/kinds/convert.h"
#include "etude/kinds/kinds.h"
#include "etude/kinds/value.h"
#include "etude/nn/erased_layer.h"

namespace etude::kinds {

// A positional parameter of a row: its name and its default, if any, as in the header
// (tests/tools/etude_kinds_test.py compares them). `given` receives the name of its field.
struct Positional {
  Positional(const char* parameter);
  Positional(const char* parameter, Value otherwise);
  ~Positional();

  const char* name;
  bool is_required = true;
  Value default_value;
};

// No options struct.
struct NoOptions {};

// Builds a kind from a row.
class KindMaker {
 public:
  explicit KindMaker(Kind& kind) : kind_(kind) {}
  void positional(const Positional& parameter, ParameterType type);
  void option(std::string_view name, ParameterType type, Value default_value);
  void range(std::string_view name, const Range& range);

 private:
  Kind& kind_;
};

namespace internal {

template <class O>
void list_options(KindMaker& maker, const O& options) {
  const auto fields = etude::internal::fields(options);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    [[maybe_unused]] const auto add = [&]<class T>(std::string_view name, const T& field) {
      maker.option(name, Converter<T>::type(), Converter<T>::write(field));
    };
    (add(etude::internal::field_name<O, I>, std::get<I>(fields)), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
  if constexpr (requires { O::ranges([](std::string_view, auto, const Range&) {}); }) {
    O::ranges([&](std::string_view name, auto, const Range& range) { maker.range(name, range); });
  }
}

template <class O>
O read_options(const Value* values, CallSite where) {
  O options;
  auto fields = etude::internal::fields(options);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    [[maybe_unused]] const auto read = [&]<class T>(T& field, const Value& value) {
      field = Converter<T>::read(value, where);
    };
    (read(std::get<I>(fields), values[I]), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
  return options;
}

// Calls a layer with one tensor. Observers see the line of the call.
template <class T>
Tensor call_object(const void* object, const Tensor& x, CallSite where) {
  const T& layer = *static_cast<const T*>(object);
  if constexpr (std::is_invocable_r_v<Tensor, const T&, const Tensor&, CallSite>) {
    return layer(x, where);
  } else {
    return layer(x);
  }
}

template <class T>
nn::Layer to_layer(const void* object) {
  return nn::Layer(*static_cast<const T*>(object));
}

template <class T>
void* copy_optimizer(const void* object) {
  return static_cast<optim::internal::RuleOptimizer*>(new T(*static_cast<const T*>(object)));
}

template <class T>
Object object_of_type(T value) {
  Object out;
  out.type = &typeid(T);
  out.value = std::make_shared<const T>(std::move(value));
  if constexpr (std::is_invocable_r_v<Tensor, const T&, const Tensor&>) {
    out.call = call_object<T>;
    // Activations and functions have no parts.
    constexpr bool has_parts = etude::internal::Reflectable<T> || std::is_same_v<T, nn::Layer>;
    if constexpr (has_parts) out.to_layer = to_layer<T>;
  }
  if constexpr (std::derived_from<T, optim::internal::RuleOptimizer>) {
    out.copy_optimizer = copy_optimizer<T>;
  }
  return out;
}

// Calls the constructor T(arguments..., options, where), without options or line if T takes none.
template <class T>
struct Constructor {
  template <class O, class... A>
  T operator()(const O& options, CallSite where, A&&... arguments) const {
    if constexpr (std::is_same_v<T, O>) {  // a record
      return options;
    } else if constexpr (std::is_constructible_v<T, A&&..., const O&, CallSite>) {
      return T(std::forward<A>(arguments)..., options, where);
    } else if constexpr (std::is_constructible_v<T, A&&..., const O&>) {
      return T(std::forward<A>(arguments)..., options);
    } else if constexpr (std::is_constructible_v<T, A&&..., CallSite>) {
      return T(std::forward<A>(arguments)..., where);
    } else {
      return T(std::forward<A>(arguments)...);
    }
  }
};

// Reads the arguments in order, since objects among them draw random numbers.
template <class F, class O, class... Args>
Object make_object(const Value* values, CallSite where) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::tuple<Args...> arguments{Converter<Args>::read(values[I], where)...};
    const O options = read_options<O>(values + sizeof...(Args), where);
    return object_of_type(F()(options, where, std::get<I>(std::move(arguments))...));
  }
  (std::index_sequence_for<Args...>());
}

// Any of the classes.
template <class... T>
ParameterType any_of(Group group) {
  return {.group = group, .others = {&typeid(T)...}};
}

template <class F, class... Inner>
Object make_over(const Value* values, CallSite where) {
  const Made inner = object_of(values[0], where);
  Object out;
  const auto make = [&]<class T>(const T& object) { out = F()(object, values, where); };
  static_cast<void>(((inner.is<Inner>() && (make(inner.as<Inner>()), true)) || ...));
  return out;
}

}  // namespace internal

// Collects all kinds.
class Table {
 public:
  // throws: kInternal for a repeated name.
  Kind& add(const char* name, Group group);
  std::vector<Kind> take();

 private:
  std::vector<Kind> kinds_;
};

// Adds rows of one group. In each row: the name, the positional parameters, and values for them
// (and options) with which a test makes an object.
class Rows {
 public:
  Rows(Table& table, Group group) : table_(table), group_(group) {}

  // A class whose constructor takes Args, then the options O.
  template <class T, class O = NoOptions, class... Args>
  void add(const char* name, std::initializer_list<Positional> positional = {}, Values sample = {},
           Options sample_options = {}) {
    add_with<T, internal::Constructor<T>, O, Args...>(name, positional, std::move(sample),
                                                      std::move(sample_options), O());
  }
  // A function without captures, (options, where, arguments...) -> object. `otherwise` are the
  // defaults of the options.
  template <class O = NoOptions, class... Args, class F>
  void function(const char* name, F, std::initializer_list<Positional> positional = {},
                Values sample = {}, Options sample_options = {}, const O& otherwise = {}) {
    using T = std::invoke_result_t<F, const O&, CallSite, Args...>;
    add_with<T, F, O, Args...>(name, positional, std::move(sample), std::move(sample_options),
                               otherwise);
  }
  // A class that wraps an object of one of several classes. F(inner, values, where) makes an object
  // for each Inner, the class of the first parameter. O is its options struct, after the positional
  // parameters.
  template <class F, class O, class... Inner>
  void wrapper(const char* name, F, std::initializer_list<std::pair<Positional, ParameterType>> all,
               Values sample) {
    Kind& kind = begin(name);
    kind.make = internal::make_over<F, Inner...>;
    KindMaker maker(kind);
    for (const auto& [parameter, type] : all) maker.positional(parameter, type);
    internal::list_options(maker, O());
    sampled(kind, std::move(sample), {});
  }

  Kind& begin(const char* name) { return table_.add(name, group_); }
  static void sampled(Kind& kind, Values sample, Options options);

 private:
  template <class T, class F, class O, class... Args>
  void add_with(const char* name, std::initializer_list<Positional> positional, Values sample,
                Options sample_options, const O& otherwise) {
    Kind& kind = begin(name);
    kind.type = &typeid(T);
    kind.make = internal::make_object<F, O, Args...>;
    KindMaker maker(kind);
    const Positional* next = positional.begin();
    (maker.positional(*next++, Converter<Args>::type()), ...);
    internal::list_options(maker, otherwise);
    sampled(kind, std::move(sample), std::move(sample_options));
  }

  Table& table_;
  Group group_;
};

// The sources of rows.
void add_layers(Table& table);
void add_convolutions(Table& table);
void add_wrappers(Table& table);
void add_models(Table& table);
void add_optimizers(Table& table);
void add_schedules(Table& table);
void add_losses(Table& table);
void add_metrics(Table& table);
void add_callbacks(Table& table);
void add_initializers(Table& table);
void add_activations(Table& table);

// The doc of a kind (`parameter` is "") or of a parameter; empty if there is none.
// tools/generate/gen_kind_docs.py copies the docs from the headers.
std::string_view doc_of(std::string_view kind, std::string_view parameter);

}  // namespace etude::kinds
