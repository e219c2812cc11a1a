// SPDX-License-Identifier: Apache-2.0
// Jacobians, Hessians, and second derivatives along a direction, of functions of numbers. Part of
// scalar_operators.h.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/diff/first_calls.h"
#include "etude/diff/forward_operators.h"
#include "etude/diff/refusals.h"
#include "etude/diff/scalar_gradient.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Rows of a matrix of derivatives: R with a Row in place of each number. If R holds structs, the
// rows are a list with one row for each number, in the order of the leaves.
template <class R, class Row>
struct RowsOf {
  using type = std::conditional_t<Scalar<R>, Row, std::vector<Row>>;
};
template <class R>
constexpr bool has_rows();
template <class... Part>
constexpr bool have_rows(TypeList<Part...>) {
  return sizeof...(Part) > 0 && (has_rows<std::remove_cvref_t<Part>>() && ...);
}
template <class R>
constexpr bool has_rows() {
  return Scalar<R> || (!Struct<R> && !IsTangent<R>::value && Composite<R> &&
                       have_rows(typename PartTypes<R>::Types()));
}
template <class R, class Row>
requires(!Scalar<R> && has_rows<R>()) struct RowsOf<R, Row> {
  using type = replace_scalar_t<R, void, Row>;
};

// Calls next() for each number of r and returns the results as rows.
template <class Row, class R, class Next>
constexpr auto rows_of(const R& r, Next& next) {
  using Out = typename RowsOf<R, Row>::type;
  if constexpr (has_rows<R>()) {
    auto row = [&](const auto&) { return next(); };
    return map_scalars<Out>(r, row);
  } else {
    Out rows;
    auto row = [&](const auto&) { rows.push_back(next()); };
    each_leaf(r, row);
    return rows;
  }
}

template <class... X>
constexpr std::size_t count_numbers(const X&... x) {
  std::size_t count = 0;
  CountNumbers numbers{count};
  (static_cast<void>(build_tangent(x, numbers)), ...);
  return count;
}

// The Jacobian of f in forward mode. Each run of f differentiates by the next `width` numbers of
// the arguments.
template <class F, class... X>
constexpr auto jacobian_by_runs(const F& f, const X&... x) {
  using T = CommonScalar<X...>;
  using To = RunNumber<F, X...>;
  constexpr std::size_t width = To::kDirections;
  if constexpr (!kTakes<To, F, X...>) {
    static_cast<void>(sizeof(RefusalOfForward<To, F, X...>));
    return Refused();
  } else {
    const auto run = [&](std::size_t first) {
      MakeSomeUnits<To> units{first};
      auto lifted = lift_arguments<T, To>(units, x...);
      return call_with(f, lifted);
    };
    const std::size_t count = count_numbers(x...);
    const auto result = run(0);
    std::vector<std::vector<T>> slopes;  // one row for each number of the result
    std::size_t first = 0, row = 0;
    const auto take = [&](const To& number) {
      if (first == 0) slopes.emplace_back(count, T(0));
      for (std::size_t k = 0; k < width && first + k < count; ++k) {
        slopes.at(row)[first + k] = number.derivatives()[k];
      }
      ++row;
    };
    each_leaf(result, take);
    for (first = width; first < count; first += width) {
      row = 0;
      const auto more = run(first);
      each_leaf(more, take);
    }
    row = 0;
    const auto next = [&] { return tangents_of(slopes.at(row++), 0, x...); };
    return rows_of<decltype(next())>(plain_result<To, T>(result), next);
  }
}

// Returns y. If the argument type X is a NoDerivative, y is excluded from the derivative too.
template <class X, class Y>
constexpr decltype(auto) kept_as(const Y& y) {
  if constexpr (IsNoDerivative<X>::value) {
    return no_derivative(y);
  } else {
    return static_cast<const Y&>(y);
  }
}
template <class F, class... X>
struct PartialOf {
  const F& f;
  template <class... Y>
  constexpr auto operator()(const Y&... y) const {
    return etude::gradient(f, kept_as<X>(y)...);
  }
};
template <class F, class... X>
constexpr PartialOf<F, std::remove_cvref_t<X>...> partial_of(const F& f, const std::tuple<X...>&) {
  return {f};
}

// Returns the reason why the gradient of f cannot be differentiated, or kNone. Compiles the body of
// f only for To, the number type of the second derivative.
template <class To, class F, class... X>
constexpr Fault second_order_fault() {
  if constexpr (kReaches<FirstNumber<F, X...>, F, X...>) {
    return kReaches<To, F, X...> && !takes_numbers<To, F, X...>() ? Fault::kBody : Fault::kNone;
  } else if constexpr (gradient_fault<F, X...>() == Fault::kNone) {
    return Fault::kSecondOrder;
  } else {
    return gradient_fault<F, X...>();
  }
}

// The same for hvp(): several arguments are in one tuple.
template <class F, class By, class X>
constexpr Fault second_order_fault_of(std::type_identity<X>) {
  return second_order_fault<HvpNumber<F, X, By>, F, X>();
}
template <class F, class By, class... X>
constexpr Fault second_order_fault_of(std::type_identity<std::tuple<X...>>) {
  return second_order_fault<HessianNumber<F, X...>, F, X...>();
}

}  // namespace internal

// The Jacobian of f: the result of f, with a gradient in place of each number. If x and the result
// are vectors, [i][j] is the derivative of number i of the result by x[j]. For several arguments a
// gradient is a tuple, as gradient() returns it. If the result of f holds structs, the Jacobian is
// a std::vector of gradients, one for each number of the result, in order.
//
// cost: one run of f, and one reverse pass for each number of the result.
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto jacobian(const F& f, const X&... x) {
  const auto both =
      internal::pulled_scalars(f, internal::raised<internal::CommonScalar<X...>>(x)...);
  if constexpr (std::is_same_v<decltype(both), const internal::Refused>) {
    return both;
  } else {
    std::size_t row = 0;
    const auto next = [&] {
      std::size_t number = 0;
      auto unit = [&]<class S>(const S&) { return tangent_t<S>(number++ == row ? 1 : 0); };
      auto slopes = both.second(internal::build_tangent(both.first, unit));
      ++row;
      return slopes;
    };
    return internal::rows_of<decltype(next())>(both.first, next);
  }
}

// The Jacobian in forward mode. It is faster than jacobian() if the arguments have fewer numbers
// than the result.
//
// cost: one run of f for every four numbers of the arguments.
template <class F, class... X>
requires internal::ScalarArguments<X...>
constexpr auto forward_jacobian(const F& f, const X&... x) {
  return internal::jacobian_by_runs(f, internal::raised<internal::CommonScalar<X...>>(x)...);
}

// The second derivatives of f at x...: the Jacobian of its gradient.
//
// cost: one gradient with four tangents for every four numbers of the arguments.
template <class F, class... X>
requires internal::ScalarArguments<X...>
constexpr auto hessian(const F& f, const X&... x) {
  using To = internal::HessianNumber<F, X...>;
  constexpr internal::Fault fault = internal::second_order_fault<To, F, X...>();
  if constexpr (fault != internal::Fault::kNone) {
    static_cast<void>(sizeof(internal::FunctionHasNoDerivative<fault, F, X...>));
    return internal::Refused();
  } else {
    return etude::forward_jacobian(internal::PartialOf<F, X...>{f}, x...);
  }
}

// The product of the Hessian of f at x and the direction v, in forward mode over the gradient. Pass
// several arguments as a tuple, with a tuple of directions; or pass all arguments, then all
// directions.
template <class F, class X>
requires internal::ScalarArguments<X>
constexpr auto hvp(const F& f, const X& x, const tangent_t<X>& v, CallSite = CallSite::here()) {
  constexpr internal::Fault fault =
      internal::second_order_fault_of<F, tangent_t<X>>(std::type_identity<X>());
  if constexpr (fault != internal::Fault::kNone) {
    static_cast<void>(sizeof(internal::FunctionHasNoDerivative<fault, F, X>));
    return internal::RefusedNumber();
  } else if constexpr (internal::IsTuple<X>::value) {
    return internal::forward_tangent(internal::partial_of(f, x), x, v).second;
  } else {
    return value_with_tangent(internal::PartialOf<F, X>{f}, x, v).second;
  }
}
template <class F, class... A>
requires(internal::are_with_tangents<A...>()) constexpr auto hvp(const F& f, const A&... a) {
  return internal::with_halves(
      [&](const auto& x, const auto& v) {
        return internal::forward_tangent(internal::partial_of(f, x), x, v).second;
      },
      a...);
}
}  // namespace etude
