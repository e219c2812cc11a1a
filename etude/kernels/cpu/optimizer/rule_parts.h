// SPDX-License-Identifier: Apache-2.0
// Parts of the rules of optimisers: the functions in their formulas, on numbers
// (ops/network/optimizer_updates.cc has them on tensors), and access to their structs of numbers as
// lists.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "etude/base/fields.h"

namespace etude::optimizer {

inline float square_root(float x) { return std::sqrt(x); }
inline double square_root(double x) { return std::sqrt(x); }
inline float larger(float a, float b) { return a > b || a != a ? a : b; }  // NaN is kept
inline double larger(double a, double b) { return a > b || a != a ? a : b; }
inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
inline double smaller(double a, double b) { return a < b || a != a ? a : b; }
inline float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }  // NaN is kept
inline double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
inline float zero_like(float) { return 0; }
inline double zero_like(double) { return 0; }

// The number of rates of an update. Rates that a rule does not have are 0.
constexpr std::size_t kRates = 10;

// The structs of a rule; see optimizer_rules.h.
template <class Rule>
using Options = typename Rule::Options;
template <class Rule, class T>
using Rates = typename Rule::template Rates<T>;
template <class Rule, class T>
using State = typename Rule::template State<T>;
template <class Rule>
constexpr std::size_t kStates = internal::field_count<State<Rule, double>>();

template <class T>
struct NoState {};

// Calls fn(field, i) for each field of a struct, in the order of declaration.
template <class Struct, class Fn>
constexpr void each_field(Struct& all, const Fn& fn) {
  std::apply(
      [&](auto&... field) {
        [[maybe_unused]] std::size_t i = 0;  // there may be no field
        (fn(field, i++), ...);
      },
      internal::fields(all));
}

// The struct whose field i is at(i).
template <class Struct, class At>
constexpr Struct from_list(const At& at) {
  Struct out{};
  each_field(out, [&](auto& field, std::size_t i) { field = at(i); });
  return out;
}

// The index of a rate among the rates of an update.
template <class Rates>
constexpr std::size_t place_of(double Rates::*rate) {
  const auto places = from_list<Rates>([](std::size_t i) { return static_cast<double>(i); });
  return static_cast<std::size_t>(places.*rate);
}

template <class Struct>
constexpr auto names_of() {
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<std::string_view, sizeof...(i)>{internal::field_name<Struct, i>...};
  }
  (std::make_index_sequence<internal::field_count<Struct>()>());
}
template <class Struct>
inline constexpr auto kNames = names_of<Struct>();

}  // namespace etude::optimizer
