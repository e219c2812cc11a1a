// SPDX-License-Identifier: Apache-2.0
// custom_gradient and recompute_grad (diff/custom_gradient.h) on tensors, and stop_gradient. Rules
// of ops are in their records.
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
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// While alive, records the trainable Variables that are read.
class ReadList final : public VariableReader {
 public:
  ReadList() { start_reading(); }
  void variable_read(const Variable& variable, const Tensor& snapshot) override;
  void stop() { stop_reading(); }
  // Removes the Variables among the arguments.
  void remove(const LeafList& arguments);

  std::vector<Variable> variables;
  std::vector<Tensor> snapshots;
};

// throws: kFailedPrecondition, which lists the Variables, unless the list is empty.
[[noreturn]] void throw_unlisted_variables(const std::vector<Variable>& variables);

// While alive, or until finish(), records the tensors that a rule uses besides its arguments, if a
// derivative is taken around it.
// threads: confined to its thread.
class RuleCaptures {
 public:
  // `inputs`: the placeholders of the arguments.
  RuleCaptures(const LeafList& arguments, std::span<const Tensor> inputs);
  // Call this when the rule at `where` has returned `results`. `known` are the values of Variables
  // that it read. Warns of captures without a derivative.
  void finish(std::span<const Tensor> results, std::span<const Tensor> known, CallSite where);

 private:
  const bool is_needed_;
  CaptureList captures_;
};

// Flattens the result of a pullback: tensors, tuples and vectors of them.
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

// Calls fn(dy...) with one tangent per member of a tuple result, else with a single tangent.
template <class R, class Fn>
decltype(auto) with_cotangents(const R& like, std::vector<Tensor> dy, Fn&& fn) {
  LeafGradients leaves(std::move(dy));
  if constexpr (IsTupleLike<R>::value) {
    return std::apply(fn, build_tangent(like, leaves));
  } else {
    return fn(build_tangent(like, leaves));
  }
}

// Returns the same structure without elements: shapes and lengths, but no memory.
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

template <class Rule, class... X>
auto run_custom(CallSite where, const Rule& rule, const X&... x) {
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
  captures.finish(results, reads.snapshots, where);
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
  PutLeaves put{attach_rule({inputs, results, back, "custom_gradient", true, where})};
  each_leaf(value, put);
  return std::move(value);
}

// Wraps the pullback of a derivative_of as a pullback that returns the tangents of the arguments.
// The wrapped pullback returns them or adds them into references.
template <class Pull, class R, class... X>
struct ReturningPullback {
  Pull pull;
  std::tuple<X...> like;  // without elements

  std::tuple<tangent_t<X>...> operator()(const tangent_t<R>& dy) const {
    return call_pullback<Pull, R, X...>(pull, dy, like);
  }
  // One cotangent for each member of a tuple.
  template <class... Y>
  requires(IsTupleLike<R>::value&& std::is_constructible_v<tangent_t<R>, const Y&...>)
      std::tuple<tangent_t<X>...>
  operator()(const Y&... dy) const { return (*this)(tangent_t<R>(dy...)); }
};

// The calls of diff/custom_gradient.h on tensors. If the value is a tuple, the pullback is called
// as pullback(dy...). If a rule reads trainable Variables, its pullback takes them as a last
// argument: pullback(dy..., std::span<const Variable>) returns a std::pair of the tangents and a
// std::vector<Tensor> with the gradients of the Variables. Outer tapes record the calls in a rule
// and in its pullback, so a second derivative is the derivative of the pullback. Forward mode runs
// the transpose of the pullback, which it calls once with zeros. In a vmap the rule and its
// pullback run on all examples, in either order of vmap and derivative.
//
// A rule has no derivative by a tensor that it captures. If such a derivative is taken while the
// rule runs, a warning is printed, once per line of a rule.
//
// throws: kFailedPrecondition if a rule reads Variables that its pullback does not take;
//         kInvalidArgument in forward mode for a pullback that is not linear; kInvalidArgument,
//         when a derivative uses it, for a gradient of another shape or dtype than its input.
template <class... X>
struct OtherLeaves {
  template <class Rule>
  static auto custom(CallSite where, const Rule& rule, const X&... x) {
    return run_custom(where, rule, x...);
  }
  // Runs f instead of the rule if no derivative is taken.
  template <class F, class Rule>
  static auto custom(CallSite where, const F& f, const Rule& rule, const X&... x) {
    using R = std::decay_t<decltype(std::invoke(rule, x...).first)>;
    if (ContextStack::is_eager()) return R(call_owned(f, x...));
    return R(run_custom(where, rule, x...));
  }
  // Runs f with the rule D, a derivative_of.
  template <class D, class F>
  static auto ruled(const F& f, const X&... x) {
    const auto rule = [](const X&... at) {
      auto made = D::vjp(at...);
      using R = std::decay_t<decltype(made.first)>;
      using Pull = std::decay_t<decltype(made.second)>;
      return std::pair{std::move(made.first),
                       ReturningPullback<Pull, R, X...>{std::move(made.second),
                                                        std::tuple<X...>(skeleton_of(at)...)}};
    };
    return custom(CallSite{}, f, rule, x...);
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

// Returns the same values without derivatives: a Tensor, or a pytree of tensors.
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
