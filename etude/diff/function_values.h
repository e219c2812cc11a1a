// SPDX-License-Identifier: Apache-2.0
// Differentiable functions as values (DifferentiableFunction), maps over batches of examples
// (vmap), and transposes of linear functions of numbers (transpose).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/custom_gradient.h"
#include "etude/diff/scalar_operators.h"
#include "etude/diff/vmap_options.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A type-erased differentiable function from A... to R, for a field of a struct, such as the
// activation of a layer. It is constructed from a generic callable, or for tensors from any
// callable. A call on plain values calls the function. Inside a derivative, a call uses the
// derivative of the function. A field with the type of the callable is cheaper, if the struct can
// name that type.
//
//   struct Dense { ...; DifferentiableFunction<double(double)> activation = relu; };
//
// A field of this type has no tangent.
template <class Signature>
class DifferentiableFunction;

namespace internal {
// Calls etude::jvp, including the overload for tensors, which is declared later and found by
// argument-dependent lookup.
template <class F, class X, class U>
auto jvp_along(const F& f, const X& x, const U& tangents) {
  return jvp(f, x, tangents);
}
}  // namespace internal

template <class R, class... A>
class DifferentiableFunction<R(A...)> {
 public:
  using Pullback = std::function<std::tuple<tangent_t<A>...>(const tangent_t<R>&)>;

  DifferentiableFunction() = default;
  template <class F>
  requires(!std::is_same_v<F, DifferentiableFunction> && std::is_invocable_v<const F&, const A&...>)
      DifferentiableFunction(F f)
      : code_(std::make_shared<Holder<F>>(std::move(f))) {}

  // throws: kFailedPrecondition if the DifferentiableFunction is empty.
  template <class... X>
  auto operator()(const X&... x) const {
    if constexpr (internal::kIsActiveCall<X...>) {
      const auto rule = [code = checked()](const A&... at) { return code->vjp(at...); };
      return internal::custom_call<true>(rule, x...);
    } else {
      return checked()->call(x...);
    }
  }
  // Returns the value and its pullback to the arguments.
  std::pair<R, Pullback> vjp(const A&... x) const { return checked()->vjp(x...); }
  // Returns the value and its tangent.
  std::pair<R, tangent_t<R>> jvp(const A&... x, const tangent_t<A>&... dx) const {
    return checked()->jvp(x..., dx...);
  }
  explicit operator bool() const { return code_ != nullptr; }

 private:
  struct Code {
    Code() = default;
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;
    virtual ~Code() = default;
    virtual R call(const A&... x) const = 0;
    virtual std::pair<R, Pullback> vjp(const A&... x) const = 0;
    virtual std::pair<R, tangent_t<R>> jvp(const A&... x, const tangent_t<A>&... dx) const = 0;
  };
  template <class F>
  struct Holder final : Code {
    explicit Holder(F given) : f(std::move(given)) {}
    R call(const A&... x) const override { return std::invoke(f, x...); }
    std::pair<R, Pullback> vjp(const A&... x) const override {
      auto [value, pull] = value_with_pullback(f, x...);
      return {std::move(value), [pull = std::move(pull)](const tangent_t<R>& dy) {
                return std::tuple<tangent_t<A>...>(pull(dy));
              }};
    }
    std::pair<R, tangent_t<R>> jvp(const A&... x, const tangent_t<A>&... dx) const override {
      return internal::jvp_along(f, std::tuple<A...>(x...), std::tuple<tangent_t<A>...>(dx...));
    }
    F f;
  };

  std::shared_ptr<const Code> checked() const {
    if (code_ == nullptr) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "an empty DifferentiableFunction was called. Assign a function to it first");
    }
    return code_;
  }
  std::shared_ptr<const Code> code_;
};
namespace internal {
template <class S>
inline constexpr bool kIsDiscreteValue<DifferentiableFunction<S>> = true;
}

namespace internal {

// A call on batches of tensors; implemented in autodiff/batch.h.
template <bool has_tensors, class... X>
struct BatchedCall {
  static_assert(has_tensors && sizeof...(X) < 0,
                "etude: vmap takes vectors of points, or tensors with the examples along axis 0 "
                "(include etude/etude.h)");
};

template <class F>
class Batched {
 public:
  Batched(F f, Randomness randomness, CallSite where)
      : f_(std::move(f)), randomness_(randomness), where_(where) {}

  template <class... X>
  auto operator()(const std::vector<X>&... batches) const {
    const std::size_t n = std::get<0>(std::tie(batches...)).size();
    const auto check = [n](std::size_t other) {
      if (other == n) return;
      throw Error(ErrorCode::kInvalidArgument, "vmap: batches of " + std::to_string(n) +
                                                   " and of " + std::to_string(other) +
                                                   " points. Give equally many of each argument");
    };
    (check(batches.size()), ...);
    if (randomness_ == Randomness::kSame) {
      throw Error(ErrorCode::kInvalidArgument,
                  "vmap: randomness is 'same', but vectors of points are calls one after the "
                  "other, each with draws of its own. Pass tensors with the examples along axis 0");
    }
    std::vector<std::decay_t<decltype(f_(batches[0]...))>> out;
    out.reserve(n);
    for (std::size_t i = 0; i < n; ++i) out.push_back(f_(batches[i]...));
    return out;
  }
  template <class... X>
  requires(sizeof...(X) > 0) auto operator()(const X&... batches) const {
    return BatchedCall<(holds_other_leaf<X>() || ...), X...>::run(f_, randomness_, where_,
                                                                  batches...);
  }

 private:
  F f_;
  Randomness randomness_;
  CallSite where_;
};

}  // namespace internal

// Maps f over many examples: vmap(gradient(f))(points) returns the gradient of f at each point.
//
// std::vectors of points must have equal lengths. f is called once per point, with independent
// random draws, and the result is the vector of results.
//
// Tensors, or structures of tensors, have the examples along axis 0. f runs once for all examples
// together, and sees the shapes of one example. Each tensor in the result has a new batch axis in
// front. All examples share the values that f captures. A result that does not depend on the
// arguments is repeated along the batch axis. f cannot read elements. Write where(x > 0, ...)
// instead of `if (x.item<float>() > 0)`.
//
// Options: `randomness` controls random draws inside f, such as random::normal or the mask of a
// Dropout. "error", the default, refuses draws. "same" uses the same draws for all examples. With
// "different", example i draws with the key random::fold_in(key, i), where `key` is the key for
// "same". A loop over the examples that folds i into this key makes the same draws, in all modes
// and for any number of threads. In a nested vmap, the index of the outer example is folded in
// first. Draws are refused if either vmap refuses them. The option does not affect explicit keys,
// or draws in a SeedScope inside f.
//
//   vmap(gradient(loss), {.randomness = "different"})(rows);  // a mask for each example
//
// throws: kInvalidArgument for an unknown `randomness`.
// throws (when called): kInvalidArgument if the numbers of examples differ, and for "same" with
// vectors of points; kFailedPrecondition, naming the draw, for a refused draw.
template <class F>
auto vmap(F f, const VmapOptions& options = {}, CallSite where = CallSite::here()) {
  return internal::Batched<F>(std::move(f), internal::randomness_of(options, where), where);
}

namespace internal {

[[noreturn]] inline void throw_not_linear(const char* call) {
  throw Error(
      ErrorCode::kInvalidArgument,
      std::string("transpose: the function is not linear: '") + call +
          "' is not, of numbers that depend on the argument. Use pullback for a derivative");
}

// A number that may only be used linearly.
template <class T>
class Linear {
 public:
  using Value = T;
  Linear() = default;
  template <class N>
  requires(std::is_arithmetic_v<N>) Linear(N constant) : x_(static_cast<T>(constant)) {}
  explicit Linear(const Active<T>& x) : x_(x) {}
  const Active<T>& number() const { return x_; }

  friend Linear operator+(const Linear& a, const Linear& b) {
    require_both(a, b, "operator+");
    return Linear(a.x_ + b.x_);
  }
  friend Linear operator-(const Linear& a, const Linear& b) {
    require_both(a, b, "operator-");
    return Linear(a.x_ - b.x_);
  }
  friend Linear operator*(const Linear& a, const Linear& b) {
    if (a.x_.varies() && b.x_.varies()) throw_not_linear("operator*");
    return Linear(a.x_ * b.x_);
  }
  friend Linear operator/(const Linear& a, const Linear& b) {
    if (b.x_.varies()) throw_not_linear("operator/");
    return Linear(a.x_ / b.x_);
  }
  friend Linear operator-(const Linear& a) { return Linear(-a.x_); }
  friend Linear operator+(const Linear& a) { return a; }
  Linear& operator+=(const Linear& b) { return *this = *this + b; }
  Linear& operator-=(const Linear& b) { return *this = *this - b; }
  Linear& operator*=(const Linear& b) { return *this = *this * b; }
  Linear& operator/=(const Linear& b) { return *this = *this / b; }
  friend bool operator==(const Linear& a, const Linear& b) { return plain(a, b, a.x_ == b.x_); }
  friend bool operator<(const Linear& a, const Linear& b) { return plain(a, b, a.x_ < b.x_); }
  friend bool operator>(const Linear& a, const Linear& b) { return plain(a, b, a.x_ > b.x_); }
  friend bool operator<=(const Linear& a, const Linear& b) { return plain(a, b, a.x_ <= b.x_); }
  friend bool operator>=(const Linear& a, const Linear& b) { return plain(a, b, a.x_ >= b.x_); }

#define ETUDE_UNARY(fn, f, dx)                \
  friend Linear f(const Linear& at) {         \
    if (at.x_.varies()) throw_not_linear(#f); \
    return Linear(f(at.x_));                  \
  }
#define ETUDE_BINARY(fn, f, da, db)                           \
  friend Linear f(const Linear& a, const Linear& b) {         \
    if (a.x_.varies() || b.x_.varies()) throw_not_linear(#f); \
    return Linear(f(a.x_, b.x_));                             \
  }
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"

 private:
  // A sum with a constant is not linear, except if the constant is 0.
  static void require_both(const Linear& a, const Linear& b, const char* call) {
    if (a.x_.varies() != b.x_.varies() && (a.x_.varies() ? b : a).x_.value() != T(0)) {
      throw_not_linear(call);
    }
  }
  static bool plain(const Linear& a, const Linear& b, bool result) {
    if (a.x_.varies() || b.x_.varies()) throw_not_linear("a comparison");
    return result;
  }
  Active<T> x_;
};

template <class T>
inline constexpr bool kIsScalar<Linear<T>> = true;

}  // namespace internal

// Returns the transpose of f, which must be linear in its arguments. The transpose maps a cotangent
// of the result to the cotangents of the arguments. `like` are example arguments; only their
// lengths matter.
//
// throws (when called): kInvalidArgument, naming the call, if a call is not linear.
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto transpose(const F& f, const X&... like) {
  using T = internal::CommonScalar<X...>;
  const auto checked = [f](const auto&... x) {
    using A = Active<T>;
    auto in = [](const A& v) { return internal::Linear<T>(v); };
    const auto result =
        f(internal::map_scalars<
            internal::replace_scalar_t<std::remove_cvref_t<decltype(x)>, A, internal::Linear<T>>>(
            x, in)...);
    using R = std::remove_cvref_t<decltype(result)>;
    auto out = [](const internal::Linear<T>& v) { return v.number(); };
    return internal::map_scalars<internal::replace_scalar_t<R, internal::Linear<T>, A>>(result,
                                                                                        out);
  };
  return [checked, ... like = like](const auto& cotangent) {
    return etude::pullback(checked, like...)(cotangent);
  };
}

}  // namespace etude
