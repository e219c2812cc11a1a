// SPDX-License-Identifier: Apache-2.0
// Differential operators on arguments that hold tensors and numbers:
//
//   template <class T>
//   struct Layer { Tensor weight; T gain; };
//   auto grads = gradient([&](const auto& m) { return sum(m.weight * m.gain); }, layer);
//   grads[&Layer<double>::gain]
//
// The function is generic over its numbers, as in diff/scalar_operators.h, or takes structs of
// Real. Functions of tensors accept these numbers directly. x.item<Real>() reads a number from a
// tensor. Part of gradient.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/internal/numbers.h"
#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tensor_operators.h"
#include "etude/core/internal/owned_result.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class... X>
concept MixedArguments = (HasScalar<X> || ...) &&
                         (mentions_other_leaf<std::remove_cvref_t<X>>() || ...);

// The number types for a function of tensors and numbers. `From` is the number type of the
// arguments. The function is called with numbers of type `To` instead.
template <class F, class... X>
struct MixedTypes {
  using From = CommonScalar<X...>;
  static constexpr bool is_first = std::floating_point<From> || IsActive<From>::value;
  static constexpr bool is_generic = kTakes<Active<From>, F, X...>;
  static constexpr bool is_real = !is_generic && IsActive<From>::value;
  static constexpr bool is_usable = is_first && (is_generic || is_real);
  using To = std::conditional_t<is_real, From, Active<From>>;
  using Number = typename To::Value;
};
// The compile-time error for a function or arguments that these operators cannot differentiate.
template <class F, class... X>
struct MixedHasNoDerivative {
  static constexpr bool is_first = MixedTypes<F, X...>::is_first;
  static_assert(is_first,
                "etude: functions of tensors and numbers are differentiated once; use tensors "
                "alone for higher derivatives");
  static constexpr bool is_recorded = !is_first;
  static_assert(is_recorded,
                "etude: calls on host numbers are not recorded; pass Tensor(x), or "
                "no_derivative(x) and NoDerivative<> for values without a derivative, or make the "
                "function and the struct generic over their numbers, or use etude::Real");
};

// Builds the tangents of arguments from the tangents of their tensors and numbers.
template <class T>
struct TakeMixed {
  LeafGradients& tensors;
  TakeTangents<std::vector<T>> numbers;
  const AwaitedStates* states = nullptr;
  std::size_t box = 0;
  template <class S>
  tangent_t<S> operator()(const S& x) {
    if constexpr (kIsOtherLeaf<S>) {
      return tensors(x);
    } else if constexpr (TensorManifold<S>) {
      tangent_t<S> out = tensors(x);
      auto each = [&](auto& leaf) {
        if constexpr (Scalar<std::remove_cvref_t<decltype(leaf)>>) leaf = numbers(leaf);
      };
      each_leaf(out, each);
      return out;
    } else {
      return numbers(x);
    }
  }
  template <class S>
  NewState<S> state(const LayerState<S>&) {
    return states != nullptr ? states->template next<S>(box) : NewState<S>();
  }
  void enter() { tensors.enter(); }
  void leave() { tensors.leave(); }
};

// Runs a function once, while two tapes record: a tape of tensors and a tape of numbers.
template <class F, class... X>
struct MixedRun {
  using Types = MixedTypes<F, X...>;
  using From = typename Types::From;
  using To = typename Types::To;
  using T = typename Types::Number;
  using Lifted = decltype(lift_arguments<From, To>(std::declval<MakeInputs<To, T>&>(),
                                                   std::declval<const X&>()...));
  using Result =
      std::remove_cvref_t<decltype(apply_owned(std::declval<const F&>(), std::declval<Lifted&>()))>;

  MixedRun(bool is_persistent, const F& f, const X&... x)
      : tape({.persistent = is_persistent, .watch_variables = false}, {}) {
    crossings = &Crossings<T>::join(numbers, TensorTape(GradientTapeAccess::tape(tape)));
    const RecordingScope<T> scope(numbers);
    MakeInputs<To, T> inputs(numbers, x...);
    lifted.emplace(lift_arguments<From, To>(inputs, x...));
    FreshLeaves watch(tape);
    each_differentiable([&](auto& a) { each_leaf(a, watch); });
    each_differentiable([&](auto& a) { states.open(a); });
    result.emplace(apply_owned(f, *lifted));
    states.close();
    // Checks the numbers of the result now, while the enclosing derivatives are known.
    const auto check = [&](const auto& leaf) { static_cast<void>(slot_of(leaf)); };
    each_leaf(std::as_const(*result), check);
    tape.stop();
    if (is_persistent) GradientTapeAccess::freeze(tape);
  }

  // Calls fn with each lifted argument that has a tangent.
  template <class Fn>
  void each_differentiable(Fn&& fn) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto one = [&]<std::size_t i, class A>(std::type_identity<A>) {
        if constexpr (Differentiable<A>) fn(std::get<i>(*lifted));
      };
      (one.template operator()<I>(std::type_identity<X>()), ...);
    }
    (std::index_sequence_for<X...>());
  }
  // Returns the slot, on the tape of numbers, of a number in the result. The slot is the index of
  // the cotangent of the number. Returns 0 for other leaves.
  template <class S>
  uint32_t slot_of(const S& leaf) const {
    if constexpr (std::is_same_v<S, To>) {
      return leaf.slot_on(numbers);
    } else {
      return 0;
    }
  }
  // Runs the reverse pass and returns the tangents of the arguments x. `seeds` are the cotangents
  // of the tensors `targets`. `cotangents` are the cotangents of the numbers, by slot.
  std::tuple<tangent_t<X>...> tangents(const LeafList& targets, std::vector<Tensor> seeds,
                                       std::vector<T>& cotangents, const X&... x) {
    LeafList sources{std::tuple<>()};
    each_differentiable([&](auto& a) { each_leaf(std::as_const(a), sources); });
    LeafGradients tensors(crossings->reverse_both(numbers, cotangents,
                                                  [&] {
                                                    return GradientTapeAccess::sweep(
                                                        tape, targets, sources, {},
                                                        std::move(seeds));
                                                  }),
                          true);
    TakeMixed<T> take{tensors, {cotangents, 1}, &states};
    std::size_t argument = 0;
    const auto build = [&](const auto& a) {
      using A = std::remove_cvref_t<decltype(a)>;
      auto t = build_tangent(a, take);
      const bool arrived = tensors.take_arrived();
      if constexpr (Differentiable<A> && !HasScalar<A>) {
        if (!arrived) warn_independent(type_name<F>(), argument, type_name<A>());
      }
      ++argument;
      return t;
    };
    return {build(x)...};
  }

  GradientTape tape;
  ScalarTape<T> numbers;  // destroyed before the tape of tensors
  Crossings<T>* crossings = nullptr;
  std::optional<Lifted> lifted;
  AwaitedStates states;
  std::optional<Result> result;
};

template <class F, class... X>
auto mixed_gradient(const F& f, const X&... x) {
  using Run = MixedRun<F, X...>;
  using T = typename Run::T;
  Run run(false, f, x...);
  Cotangents<T> cotangents(run.numbers.size());
  if constexpr (std::is_same_v<typename Run::Result, typename Run::To>) {
    cotangents.values()[run.slot_of(*run.result)] = T(1);
    auto all = run.tangents(LeafList(std::tuple<>()), {}, cotangents.values(), x...);
    return std::pair{plain_result<typename Run::To, typename Run::From>(*run.result),
                     pick_tangents<X...>(std::move(all))};
  } else {
    static_assert(std::is_convertible_v<typename Run::Result, Tensor>,
                  "etude: gradient needs a function with one number or one scalar Tensor as its "
                  "result; use pullback for other results");
    const Tensor value = *run.result;
    require_scalar_result(value, {});
    auto all = run.tangents(LeafList(value), {}, cotangents.values(), x...);
    return std::pair{value, pick_tangents<X...>(std::move(all))};
  }
}

}  // namespace internal

// Returns f(x...) and its gradient, from one run of f. The result of f must be one number, or a
// tensor of one element.
//
// throws: kInvalidArgument if the result is a tensor of several elements; kUnimplemented if f reads
//   numbers from a tensor that an outer derivative differentiates; the errors of f.
template <class F, class... X>
requires internal::MixedArguments<X...>
auto value_with_gradient(const F& f, const X&... x) {
  if constexpr (!internal::MixedTypes<F, X...>::is_usable) {
    return internal::kRefused<internal::MixedHasNoDerivative<F, X...>>;
  } else {
    return internal::mixed_gradient(f, x...);
  }
}
template <class F, class... X>
requires internal::MixedArguments<X...>
auto gradient(const F& f, const X&... x) { return value_with_gradient(f, x...).second; }

namespace internal {

// The residuals of a pullback of tensors and numbers.
template <class F, class... X>
struct PulledMixed {
  using Run = MixedRun<F, X...>;
  using Result = replace_scalar_t<typename Run::Result, typename Run::To, typename Run::From>;
  explicit PulledMixed(const F& f, const X&... at)
      : run(true, f, at...),
        value(plain_result<typename Run::To, typename Run::From>(*run.result)),
        x(at...) {}

  // throws: kInvalidArgument for a cotangent that does not have the shape of the result.
  auto pull(const tangent_t<Result>& cotangent, CallSite where) {
    using T = typename Run::T;
    Cotangents<T> cotangents(run.numbers.size());
    std::vector<uint32_t> slots;
    const auto collect = [&](const auto& leaf) {
      if constexpr (Scalar<std::remove_cvref_t<decltype(leaf)>>) slots.push_back(run.slot_of(leaf));
    };
    each_leaf(std::as_const(*run.result), collect);
    std::size_t next = 0;
    Seeds seeds(where);
    const auto seed = [&](const auto& leaf, const auto& ct) {
      if constexpr (Scalar<std::remove_cvref_t<decltype(leaf)>>) {
        cotangents.values()[slots[next++]] += T(ct);
      } else {
        seeds(leaf, ct);
      }
    };
    zip_leaves(std::as_const(value), cotangent, seed);
    cotangents.values()[0] = T(0);
    return std::apply(
        [&](const X&... at) {
          return pick_tangents<X...>(
              run.tangents(LeafList(value), seeds.items(), cotangents.values(), at...));
        },
        x);
  }

  Run run;
  Result value;
  std::tuple<X...> x;
};

}  // namespace internal

// Returns f(x...) and its pullback. The result of f may have any differentiable type.
template <class F, class... X>
requires internal::MixedArguments<X...>
auto value_with_pullback(const F& f, const X&... x) {
  if constexpr (!internal::MixedTypes<F, X...>::is_usable) {
    return internal::kRefused<internal::MixedHasNoDerivative<F, X...>>;
  } else {
    using Run = internal::PulledMixed<F, X...>;
    static_assert(Differentiable<typename Run::Result>,
                  "etude: the result type is not Differentiable");
    static_cast<void>(sizeof(internal::ResultHasOwnTangent<typename Run::Result>));
    auto run = std::make_shared<Run>(f, x...);
    auto value = run->value;
    return std::pair{std::move(value), PullbackOf(std::move(run))};
  }
}
template <class F, class... X>
requires internal::MixedArguments<X...>
auto pullback(const F& f, const X&... x) { return value_with_pullback(f, x...).second; }

namespace internal {

// While a ForwardNumbers object is alive, conversions between forward-mode numbers and tensors on
// this thread carry tangents through `context`. Each derivative has its own Tag, and so its own
// context.
template <class Tag>
class ForwardNumbers {
 public:
  explicit ForwardNumbers(JvpContext& context) : outer_(std::exchange(current(), &context)) {}
  ForwardNumbers(const ForwardNumbers&) = delete;
  ForwardNumbers& operator=(const ForwardNumbers&) = delete;
  ~ForwardNumbers() { current() = outer_; }
  static JvpContext*& current() {
    thread_local constinit JvpContext* context = nullptr;
    return context;
  }

 private:
  JvpContext* outer_;
};

template <class T, std::size_t n, class Tag>
struct NumberCrossing<Dual<T, n, Tag>> {
  using S = Dual<T, n, Tag>;
  static constexpr bool kIsNumber = std::floating_point<T>;
  using Value = T;

  static double real(const S& x) { return static_cast<double>(x.value()); }
  static Tensor followed(const S& x, CallSite where) {
    check();
    return x.derivatives()[0] != T(0) ? tensor({&x, 1}, Shape{}, dtype_of<T>, where) : Tensor();
  }
  static Tensor tensor(std::span<const S> numbers, const Shape& shape, DType dtype,
                       CallSite where) {
    check();
    std::vector<T> values, tangents;
    for (const S& x : numbers) {
      values.push_back(x.value());
      tangents.push_back(x.derivatives()[0]);
    }
    Tensor out = tensor_of(values, shape, dtype, where);
    if (JvpContext* context = ForwardNumbers<Tag>::current()) {
      context->set_tangent(out, tensor_of(tangents, shape, dtype, where));
    } else {
      for (const T& t : tangents) {
        if (t != T(0)) throw_forward_alone(where);
      }
    }
    return out;
  }
  static S item(const Tensor& x, CallSite where) {
    static_cast<void>(x.item<T>(where));  // throws unless x has one number
    return elements(x, where)[0];
  }
  static std::vector<S> elements(const Tensor& x, CallSite where) {
    check();
    JvpContext* context = ForwardNumbers<Tag>::current();
    require_followed_by(context, x, where);
    const std::vector<T> values = x.to_vector<T>(where);
    const Tensor t = context != nullptr ? context->tangent(x) : Tensor();
    const std::vector<T> tangents =
        t.has_value() ? to_dense(t).template to_vector<T>() : std::vector<T>(values.size());
    std::vector<S> out;
    for (std::size_t i = 0; i < values.size(); ++i) out.push_back(S(values[i], {tangents[i]}));
    return out;
  }

 private:
  // Tensors carry a tangent along one direction only.
  static void check() {
    if constexpr (kIsGradientDual<S>) {
      require_tape<S>();
    } else {
      static_assert(n == 1, "etude: a number of several directions in a tensor");
    }
  }
};

// Splits the leaves of a tangent into tensors and numbers.
template <class T>
struct SplitTangent {
  std::vector<Tensor> tensors;
  std::vector<T> numbers;
  void operator()(const Tensor& t) { tensors.push_back(t); }
  template <class S>
  void operator()(const S& t) {
    numbers.push_back(T(t));
  }
};

}  // namespace internal

// Returns the value of f and its tangent along `tangents`, in one forward-mode run. For several
// arguments, `primals` is a tuple.
//
// throws: kInvalidArgument if a tangent has another type than its argument; the errors of f.
template <class F, class X>
requires internal::MixedArguments<X>
auto jvp(const F& f, const X& primals, const tangent_t<X>& tangents,
         CallSite where = CallSite::here()) {
  using T = internal::CommonScalar<X>;
  using To = Dual<T, 1, F>;
  static_assert(std::floating_point<T>,
                "etude: functions of tensors and numbers are differentiated once, and in forward "
                "mode when they are generic over their numbers");
  auto whole = zero_tangent(primals);  // a tangent may lack entries
  etude::move(whole, tangents);
  internal::SplitTangent<T> split;
  const auto split_beside = [&](const auto&, const auto& t) { internal::each_leaf(t, split); };
  internal::zip_leaves(primals, std::as_const(whole), split_beside);  // skips frozen parts
  internal::ForwardRun run(where);
  const internal::ForwardNumbers<F> scope(run.context());
  internal::MakeDuals<To> duals{split.numbers};
  auto lifted = internal::map_scalars<internal::replace_scalar_t<X, T, To>>(primals, duals);
  auto next = split.tensors.begin();
  const auto set = [&](auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (internal::kIsOtherLeaf<Leaf>) {
      run(leaf, *next++);
    } else if constexpr (internal::TensorManifold<Leaf>) {
      // The numbers of `leaf` are duals, which already carry their tangents. Their slots in `along`
      // stay 0.
      tangent_t<Leaf> along = zero_tangent(leaf);
      const auto take = [&](auto& part) {
        if constexpr (internal::kIsOtherLeaf<std::remove_cvref_t<decltype(part)>>) part = *next++;
      };
      internal::each_leaf(along, take);
      run(leaf, along);
    }
  };
  internal::each_leaf(lifted, set);
  const auto result = internal::spread(
      lifted, [&](const auto&... x) { return internal::call_owned(f, internal::pass(x)...); });
  using Result = std::remove_cvref_t<decltype(result)>;
  const auto plain = [](const To& v) { return v.value(); };
  auto value = internal::map_scalars<internal::replace_scalar_t<Result, To, T>>(result, plain);
  static_assert(Differentiable<decltype(value)>, "etude: the result type is not Differentiable");
  static_cast<void>(sizeof(internal::ResultHasOwnTangent<decltype(value)>));
  std::vector<T> of_numbers;
  const auto collect = [&](const auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, To>) {
      of_numbers.push_back(leaf.derivatives()[0]);
    }
  };
  internal::each_leaf(result, collect);
  internal::LeafGradients of_tensors(run.tangents(internal::LeafList(result)), true);
  internal::TakeMixed<T> take{of_tensors, {of_numbers, 0}};
  auto tangent = internal::build_tangent(value, take);
  return std::pair{std::move(value), std::move(tangent)};
}

namespace internal {

// Implements the curried operators of diff/scalar_operators.h on tensors.
template <class... X>
struct OtherGradients {
  template <class F>
  static auto gradient(const F& f, CallSite where, const X&... at) {
    if constexpr ((HasScalar<X> || ...)) {
      return etude::gradient(f, at...);
    } else {
      return etude::gradient<X...>({f, where}, at...);
    }
  }
};

}  // namespace internal

}  // namespace etude
