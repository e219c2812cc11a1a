// SPDX-License-Identifier: Apache-2.0
// Differential operators on functions of numbers, containers and structs of them:
//
//   gradient([](auto x, auto y) { return x * y; }, 3.0, 4.0);          // (4, 3)
//   derivative([](auto x) { return sin(x); }, 0.0);                    // 1
//
// The function is generic (auto parameters, a template, structs templated on their scalar) or takes
// Real, and is called once with active scalars (reverse mode) or dual numbers (forward mode; a
// gradient that meets with_derivative, or a tensor made of its numbers, begins again in reverse);
// whatever it does with them counts: branches, loops, recursion, early returns, mutation,
// exceptions, standard algorithms. It calls functions of <cmath> without std::.
//
// Arguments that cannot move and those wrapped in no_derivative are left out; one differentiable
// argument gives its tangent, several give a tuple. Operators nest: the derivative of a derivative
// is taken by using one inside of a function. An inner function that captures the argument of an
// outer one gets its own argument from it, not from a plain number.
//
// threads: thread-safe; a derivative is recorded on the thread that takes it.
// cost: reverse mode runs the function once, and then goes back over what it recorded, 24 bytes a
// call; a thread keeps that memory for its next derivative.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/scalar_reverse.h"
#include "etude/diff/scalar_runs.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The value of f(x...), one number, and its gradient, with one run of f. Up to four numbers go
// forward, others, and functions on Real, are recorded and gone back over. Of what is recorded, it
// tells once for each function if the result does not depend on an argument (set_diagnostics).
//
// throws: what f throws; no tape stays active then.
template <class F, class... X>
requires(internal::ScalarArguments<X...> &&
         !internal::ResultIsPlain<F, X...>) constexpr auto value_with_gradient(const F& f,
                                                                               const X&... x) {
  if constexpr (internal::goes_forward<F, X...>()) {
    return internal::forward_gradient(f, x...);
  } else {
    return internal::reverse_gradient(f, x...);
  }
}
template <class F, class... X>
requires(internal::ScalarArguments<X...>&& internal::ResultIsPlain<F, X...>) [[deprecated(
    "etude: the result does not depend on the differentiated arguments; the gradient is "
    "zero")]] constexpr auto value_with_gradient(const F& f, const X&... x) {
  return internal::plain_gradient(f, x...);
}

// The gradient of f at x....
template <class F, class... X>
requires(internal::ScalarArguments<X...> &&
         !internal::ResultIsPlain<F, X...>) constexpr auto gradient(const F& f, const X&... x) {
  return value_with_gradient(f, x...).second;
}
template <class F, class... X>
requires(internal::ScalarArguments<X...>&& internal::ResultIsPlain<F, X...>) [[deprecated(
    "etude: the result does not depend on the differentiated arguments; the gradient is "
    "zero")]] constexpr auto gradient(const F& f, const X&... x) {
  return internal::plain_gradient(f, x...).second;
}

namespace internal {

// What operators do on arguments with other leaves than numbers: runtime/ has it for tensors.
template <class... X>
struct OtherGradients;

}  // namespace internal

// The function that gives the gradient of f.
template <class F>
auto gradient(const F& f, CallSite where = CallSite::here()) {
  // A function is held by its address: references to functions do not match const F& on clang.
  return [f = std::decay_t<const F&>(f), where]<class... X>(const X&... at) {
    if constexpr (internal::ScalarArguments<X...>) {
      return etude::gradient(f, at...);
    } else {
      return internal::OtherGradients<X...>::gradient(f, where, at...);
    }
  };
}

// A structure of numbers without their dependence.
template <class X>
requires(internal::ScalarArguments<X> && !internal::Scalar<X>) X stop_gradient(const X& x) {
  auto stop = [](const auto& v) { return stop_gradient(v); };
  return internal::map_scalars<X>(x, stop);
}

// Gives the tangents of the arguments for a cotangent of the result. May be called again, and from
// other threads; holds all it needs.
template <class T, class R, class... X>
class PullbackOfScalars {
 public:
  using Run = internal::PulledScalars<T, R, X...>;
  explicit PullbackOfScalars(std::shared_ptr<const Run> run) : run_(std::move(run)) {}

  // throws: kInvalidArgument for a cotangent that does not fit the result.
  auto operator()(const tangent_t<R>& cotangent) const {
    internal::Cotangents<T> cotangents(run_->tape.size());
    std::size_t count = 0;
    const auto number = [&](const auto&) { ++count; };
    internal::each_leaf(cotangent, number);
    if (count != run_->slots.size()) internal::throw_cotangent_size(count, run_->slots.size());
    const std::uint32_t* slot = run_->slots.data();
    const auto seed = [&](const auto&, const auto& ct) { cotangents.values()[*slot++] += T(ct); };
    internal::named("pullback", [&] { internal::zip_leaves(run_->value, cotangent, seed); });
    cotangents.values()[0] = T(0);
    run_->tape.reverse(cotangents.values());
    return std::apply(
        [&](const X&... x) { return internal::tangents_of(cotangents.values(), 1, x...); },
        run_->arguments);
  }

 private:
  std::shared_ptr<const Run> run_;
};

// f(x...) of any differentiable type, and its pullback.
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto value_with_pullback(const F& f, const X&... x) {
  using Types = internal::ReverseTypes<F, X...>;
  using T = typename Types::Number;
  internal::ScalarTape<T> tape;
  const auto result = [&] {
    const internal::RecordingScope<T> scope(tape);
    internal::MakeInputs<typename Types::To, T> inputs(tape, x...);
    auto lifted = internal::lift_arguments<typename Types::From, typename Types::To>(inputs, x...);
    auto made = std::apply(f, lifted);
    auto check = [&](const auto& leaf) { static_cast<void>(leaf.slot_on(tape)); };
    internal::each_leaf(made, check);  // while the derivatives around it are known
    return made;
  }();
  auto value = internal::plain_result<typename Types::To, typename Types::From>(result);
  using R = decltype(value);
  static_assert(Differentiable<R>, "etude: the result type is not Differentiable");
  std::vector<std::uint32_t> slots;
  auto collect = [&](const auto& leaf) { slots.push_back(leaf.slot_on(tape)); };
  internal::each_leaf(result, collect);
  using Run = internal::PulledScalars<T, R, X...>;
  auto run = std::make_shared<const Run>(
      Run{std::move(tape), std::move(slots), value, std::tuple<X...>{x...}});
  return std::pair{std::move(value), PullbackOfScalars<T, R, X...>(std::move(run))};
}
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto pullback(const F& f, const X&... x) { return value_with_pullback(f, x...).second; }

// The value of f at x, and its tangent along `by`, in one run in forward mode.
//
// throws: kInvalidArgument where the tangent does not fit x; what f throws.
template <class F, class X>
requires internal::ScalarArguments<X>
auto value_with_tangent(const F& f, const X& x, const tangent_t<X>& by) {
  using T = internal::CommonScalar<X>;
  using To = Dual<T, 1, F>;
  internal::require_generic<To, F, X>();
  std::vector<T> directions;
  auto whole = zero_tangent(x);  // a tangent may lack entries
  internal::named("jvp", [&] { etude::move(whole, by); });
  auto collect = [&](const auto& t) { directions.push_back(T(t)); };
  internal::each_leaf(whole, collect);
  internal::MakeDuals<To> duals{directions};
  auto lifted = internal::map_scalars<internal::lifted_t<X, T, To>>(x, duals);
  return internal::split_dual<To>(std::invoke(f, lifted));
}

// The derivative of f at the number x, in forward mode, beside the value. f may return any
// structure of numbers.
template <class F, internal::Scalar X>
requires(internal::kTakesNumbers<F, X>) constexpr auto value_with_derivative(const F& f,
                                                                             const X& x) {
  using To = Dual<X, 1, F>;
  internal::require_generic<To, F, X>();
  To lifted(x, {X(1)});
  return internal::split_dual<To>(std::invoke(f, lifted));
}
template <class F, internal::Scalar X>
requires(internal::kTakesNumbers<F, X>) constexpr auto derivative(const F& f, const X& x) {
  return value_with_derivative(f, x).second;
}

// The value of f and its tangent along `tangents`, in one run in forward mode. A tuple stands for
// several arguments.
//
// throws: kInvalidArgument where a tangent does not fit its argument; what f throws.
template <class F, class X>
requires internal::ScalarArguments<X>
auto jvp(const F& f, const X& primals, const tangent_t<X>& tangents, CallSite = CallSite::here()) {
  if constexpr (internal::IsTuple<X>::value) {
    const auto on_tuple = [&](const auto& all) { return std::apply(f, all); };
    return value_with_tangent(on_tuple, primals, tangents);
  } else {
    return value_with_tangent(f, primals, tangents);
  }
}

// The value of f, and the tangents of its arguments for a cotangent of the value; a tuple stands
// for several arguments.
template <class F, class X, class Cotangent>
requires internal::ScalarArguments<X>
auto vjp(const F& f, const X& primals, const Cotangent& cotangent, CallSite = CallSite::here()) {
  auto both = internal::spread(
      primals, [&](const auto&... x) { return etude::value_with_pullback(f, x...); });
  auto tangents = both.second(cotangent);
  return std::pair{std::move(both.first), std::move(tangents)};
}

// Gives the tangent of f(x...) for tangents of the arguments; holds copies of f and of these.
template <class F, class... X>
class DifferentialOfScalars {
 public:
  explicit DifferentialOfScalars(const F& f, const X&... x) : f_(f), x_(x...) {}
  // throws: kInvalidArgument where a tangent does not fit its argument.
  auto operator()(const tangent_t<X>&... by) const {
    return etude::jvp(f_, x_, std::tuple<tangent_t<X>...>(by...)).second;
  }

 private:
  F f_;
  std::tuple<X...> x_;
};
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto differential(const F& f, const X&... x) { return DifferentialOfScalars<F, X...>(f, x...); }
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto value_with_differential(const F& f, const X&... x) {
  return std::pair{std::invoke(f, internal::pass(x)...), etude::differential(f, x...)};
}

// The second derivative of f at x times v, both vectors: forward mode over the gradient.
template <class F, class X>
requires internal::ScalarArguments<X>
auto hvp(const F& f, const X& x, const tangent_t<X>& v, CallSite = CallSite::here()) {
  return value_with_tangent([&](const auto& y) { return etude::gradient(f, y); }, x, v).second;
}

// The second derivatives of f at x: row i holds those by x[i].
// cost: a gradient and its tangent for each row.
template <class F, class T>
requires internal::ScalarArguments<std::vector<T>> std::vector<std::vector<T>> hessian(
    const F& f, const std::vector<T>& x) {
  std::vector<std::vector<T>> rows;
  std::vector<T> unit(x.size(), T(0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    unit[i] = T(1);
    rows.push_back(etude::hvp(f, x, unit));
    unit[i] = T(0);
  }
  return rows;
}

// The derivatives of the results of f, row by row: [i][j] is that of result i by x[j].
// cost: one run of f and a pass back for each result.
template <class F, class T>
requires internal::ScalarArguments<std::vector<T>> std::vector<std::vector<T>> jacobian(
    const F& f, const std::vector<T>& x) {
  const auto [value, pull] = value_with_pullback(f, x);
  std::vector<std::vector<T>> rows;
  std::vector<T> unit(value.size(), T(0));
  for (std::size_t i = 0; i < value.size(); ++i) {
    unit[i] = T(1);
    rows.push_back(pull(unit));
    unit[i] = T(0);
  }
  return rows;
}

}  // namespace etude
