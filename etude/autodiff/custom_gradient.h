// SPDX-License-Identifier: Apache-2.0
// custom_gradient and recompute_grad (diff/custom_gradient.h) on tensors, and stop_gradient. The
// derivative rules of ops are in the op records.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/autodiff/internal/captures.h"
#include "etude/autodiff/internal/custom_rule.h"
#include "etude/autodiff/internal/recompute.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/owned_result.h"
#include "etude/diff/custom_gradient.h"
#include "etude/diff/internal/custom_call.h"
#include "etude/diff/internal/rule_checks.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Records the trainable Variables that are read, until stop() or destruction.
class ReadList final : public VariableReader {
 public:
  ReadList() { start_reading(); }
  void variable_read(const Variable& variable, const Tensor& snapshot) override;
  void stop() { stop_reading(); }
  // Removes the Variables that are arguments.
  void remove(const LeafList& arguments);

  std::vector<Variable> variables;
  std::vector<Tensor> snapshots;
};

// throws: kFailedPrecondition, naming the Variables.
[[noreturn]] void throw_unlisted_variables(const std::vector<Variable>& variables);

// Records the tensors that a rule uses besides its arguments, until finish() or destruction. Does
// nothing if no derivative is being taken.
// threads: confined to its thread.
class RuleCaptures {
 public:
  // `inputs`: the tensors of the arguments, and the values of Variables among the arguments.
  RuleCaptures(const LeafList& arguments, std::span<const Tensor> inputs);
  // Call finish() after the rule at `where` has returned `results`. `known` are the values of the
  // Variables that the rule read. Warns if a derivative with respect to a captured tensor is being
  // taken, since the rule has no such derivative.
  void finish(std::span<const Tensor> results, std::span<const Tensor> known, CallSite where);

 private:
  const bool is_needed_;
  CaptureList captures_;
};

// Flattens the result of a pullback to a list of tensors.
class FlatGradients {
 public:
  template <class G>
  explicit FlatGradients(const G& g) {
    each_leaf(g, *this);
  }
  void operator()(const Tensor& g) { items.push_back(g); }
  template <class T>
  void operator()(const T&) {}
  std::vector<Tensor> items;
};

template <class R>
struct IsTupleLike : std::false_type {};
template <class... T>
struct IsTupleLike<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTupleLike<std::pair<A, B>> : std::true_type {};

// Builds a tangent of `like` from the tensors `dy`, and calls fn. If `like` is a tuple or a pair,
// fn takes one tangent per member. Otherwise fn takes one tangent.
template <class R, class Fn>
decltype(auto) with_cotangents(const R& like, std::vector<Tensor> dy, Fn&& fn) {
  LeafGradients leaves(std::move(dy));
  if constexpr (IsTupleLike<R>::value) {
    return std::apply(fn, build_tangent(like, leaves));
  } else {
    return fn(build_tangent(like, leaves));
  }
}

// Returns `value` with abstract tensors: shapes and lengths are kept, elements are released.
template <class R>
R skeleton_of(R value) {
  auto each = [](auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>) {
      if (leaf.has_value()) leaf = leaf.type()->abstract_tensor();
    }
  };
  each_leaf(value, each);
  return value;
}

// Converts the jvp of a derivative_of to a forward rule. The rule takes the tangents of all tensors
// in `arguments` as one list.
template <class D, class... X>
struct ForwardRule {
  std::tuple<X...> arguments;

  std::vector<Tensor> operator()(std::span<const Tensor> tangents) const {
    LeafGradients leaves({tangents.begin(), tangents.end()}, true);
    return std::apply(
        [&](const auto&... x) {
          const std::tuple<tangent_t<X>...> along{build_tangent(x, leaves)...};
          const auto made =
              std::apply([&](const auto&... dx) { return D::jvp(x..., dx...); }, along);
          using R = std::decay_t<decltype(made.first)>;
          return FlatGradients(static_cast<const tangent_t<R>&>(made.second)).items;
        },
        arguments);
  }
};
// The name and the line of a rule, for errors.
struct RuleName {
  std::string_view name = "custom_gradient";
  CallSite where = {};
};

// Runs a rule that returns the value and a pullback. `push` is a forward rule, or nullptr.
template <class Rule, class Push, class... X>
auto run_custom(const RuleName& of, const Rule& rule, const Push& push, const X&... x) {
  static_assert(!(holds_tensor_manifold<X>() || ...),
                "etude: a rule takes tensors; a type with a tangent of its own "
                "(DifferentiableTraits) moves by its move(): pass its tensors");
  const std::tuple<const X&...> arguments(x...);
  const LeafList leaves(arguments);
  std::vector<Tensor> inputs = values_of(leaves);
  ReadList reads;
  RuleCaptures captures(leaves, inputs);
  auto [made, with] = std::invoke(rule, x...);
  auto& value = made;  // clang 14 captures no structured bindings
  auto& pull = with;
  reads.stop();
  const std::vector<Tensor> results = values_of(LeafList(value));
  captures.finish(results, reads.snapshots, of.where);
  reads.remove(leaves);
  using P = std::decay_t<decltype(pull)>;
  const std::vector<Variable> variables = reads.variables;
  const auto takes_variables = [&] {
    return with_cotangents(value, {}, [](auto&&... dy) {
      return std::bool_constant<
          std::is_invocable_v<const P&, decltype(dy)..., std::span<const Variable>>>();
    });
  };
  constexpr bool kTakesVariables = decltype(takes_variables())::value;
  if constexpr (!kTakesVariables) {
    if (!variables.empty()) throw_unlisted_variables(variables);
  }
  inputs.insert(inputs.end(), reads.snapshots.begin(), reads.snapshots.end());
  const Pullback back = [pull = std::move(pull), variables,
                         like = skeleton_of(value)](std::span<const Tensor> dy) {
    return with_cotangents(like, {dy.begin(), dy.end()}, [&](auto&&... each) {
      if constexpr (kTakesVariables) {
        auto [of_x, of_variables] = pull(each..., std::span(variables.data(), variables.size()));
        std::vector<Tensor> all = FlatGradients(of_x).items;
        all.insert(all.end(), of_variables.begin(), of_variables.end());
        return all;
      } else {
        return FlatGradients(call_owned(pull, each...)).items;
      }
    });
  };
  RuleCall call{inputs, results, back, of.name, true, of.where};
  if constexpr (!std::is_null_pointer_v<Push>)
    call.push = [&push](std::span<const Tensor> tangents) { return push(tangents); };
  PutLeaves put{attach_rule(call)};
  each_leaf(value, put);
  return std::move(value);
}

// Runs f with a forward rule only. Reverse mode runs the transpose of the forward rule.
template <class D, class F, class... X>
auto run_by_jvp(const RuleName& of, const F& f, const X&... x) {
  static_assert(!(holds_tensor_manifold<X>() || ...),
                "etude: a rule takes tensors; a type with a tangent of its own "
                "(DifferentiableTraits) moves by its move(): pass its tensors");
  const std::tuple<const X&...> arguments(x...);
  const LeafList leaves(arguments);
  RuleCall call{.inputs = values_of(leaves), .name = of.name, .where = of.where};
  ReadList reads;
  RuleCaptures captures(leaves, call.inputs);
  auto value = call_owned(f, x...);
  reads.stop();
  call.results = values_of(LeafList(value));
  captures.finish(call.results, {}, of.where);
  reads.remove(leaves);
  if (!reads.variables.empty()) throw_unlisted_variables(reads.variables);
  call.push = ForwardRule<D, X...>{std::tuple<X...>(x...)};
  call.pullback = transposed(call.push, call.inputs, of.name, of.where);
  PutLeaves put{attach_rule(call)};
  each_leaf(value, put);
  return value;
}

// Wraps the pullback of a derivative_of as a pullback that returns the tangents of the arguments.
// The wrapped pullback may return the tangents, or add the tangents to references.
template <class Pull, class R, class... X>
struct ReturningPullback {
  Pull pull;
  std::tuple<X...> like;  // without elements

  std::tuple<tangent_t<X>...> operator()(const tangent_t<R>& dy) const {
    return call_pullback<Pull, R, X...>(pull, dy, like);
  }
  // Takes one cotangent per member of a tuple result.
  template <class... Y>
  requires(IsTupleLike<R>::value&& std::is_constructible_v<tangent_t<R>, const Y&...>)
      std::tuple<tangent_t<X>...>
  operator()(const Y&... dy) const { return (*this)(tangent_t<R>(dy...)); }
};

// Converts the vjp of a derivative_of to a rule of custom_gradient.
template <class D>
struct ReverseRule {
  template <class... X>
  auto operator()(const X&... x) const {
    auto made = D::vjp(x...);
    using R = std::decay_t<decltype(made.first)>;
    using Pull = std::decay_t<decltype(made.second)>;
    return std::pair{std::move(made.first),
                     ReturningPullback<Pull, R, X...>{std::move(made.second),
                                                      std::tuple<X...>(skeleton_of(x)...)}};
  }
};

// Implements the calls of diff/custom_gradient.h on tensors. If the value is a tuple, the pullback
// is called as pullback(dy...). If a rule reads trainable Variables, the pullback must take a
// std::span<const Variable> as its last argument. Then the pullback returns a std::pair: the
// tangents of the arguments, and a std::vector<Tensor> with the gradients of the Variables. Outer
// tapes record the calls of a rule and of its pullback, so a second derivative is the derivative of
// the pullback. Forward mode calls the pullback once with zeros, and runs the transpose of the
// pullback. In a vmap, the rule and its pullback run on all examples together, whether the
// derivative is taken inside or outside the vmap.
//
// A rule has no derivative with respect to a captured tensor. If a derivative with respect to a
// captured tensor is being taken while the rule runs, a warning is printed, once for each source
// line that calls a rule.
//
// If a derivative_of has a jvp, forward mode runs the jvp instead of the transpose of the pullback.
// If a derivative_of has no vjp, reverse mode runs the transpose of the jvp. Then the jvp must be
// linear in its tangents.
//
// throws: kFailedPrecondition if a rule reads Variables that its pullback does not take;
//         kInvalidArgument in forward mode if the pullback is not linear in its cotangents;
//         kInvalidArgument in a derivative if a gradient has another shape or dtype than its input.
template <class... X>
struct OtherLeaves {
  template <class Rule>
  static auto custom(CallSite where, const Rule& rule, const X&... x) {
    return run_custom({.where = where}, rule, nullptr, x...);
  }
  // Runs f instead of the rule if the context stack is empty. No derivative is then being taken.
  template <class F, class Rule>
  static auto custom(CallSite where, const F& f, const Rule& rule, const X&... x) {
    using R = std::decay_t<decltype(std::invoke(rule, x...).first)>;
    if (ContextStack::is_eager()) return R(call_owned(f, x...));
    return R(run_custom({.where = where}, rule, nullptr, x...));
  }
  // Runs f with D, a derivative_of, as its rule.
  template <class D, class F>
  static auto ruled(const F& f, const X&... x) {
    constexpr RuleName kName{.name = "derivative_of"};
    using R = std::decay_t<decltype(call_owned(f, x...))>;
    if (ContextStack::is_eager()) return R(call_owned(f, x...));
    if constexpr (!CallsVjp<D, X...>) {
      return R(run_by_jvp<D>(kName, f, x...));
    } else if constexpr (CallsJvp<D, X...>) {
      return R(run_custom(kName, ReverseRule<D>(), ForwardRule<D, const X&...>{{x...}}, x...));
    } else {
      return R(run_custom(kName, ReverseRule<D>(), nullptr, x...));
    }
  }
  template <class F>
  static auto recompute(const F& f, const X&... x) {
    return run_recomputed(f, x...);
  }
};

Tensor stop_leaf(const Tensor& x);
template <class F>
auto stop_leaf(const F& x) {
  if constexpr (Scalar<F>) {
    return stop_gradient(x);
  } else if constexpr (TensorManifold<F>) {
    F out = x;
    each_tensor_of(out, [](Tensor& tensor) { tensor = stop_leaf(tensor); });
    return out;
  } else {
    return x;
  }
}

}  // namespace internal

// Returns the values of x without derivatives. x is a Tensor, a Variable or a pytree of tensors.
template <Structure X>
requires(!internal::ScalarArguments<X>) auto stop_gradient(const X& x) {
  if constexpr (std::is_same_v<X, Variable>) {
    return internal::stop_leaf(x.read());
  } else {
    X out = x;
    auto each = [](auto& leaf) { leaf = internal::stop_leaf(leaf); };
    internal::each_leaf(out, each);
    return out;
  }
}

}  // namespace etude
