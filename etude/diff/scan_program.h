// SPDX-License-Identifier: Apache-2.0
// The body of a scan as an expression that is known at compile time (base/scalars/expression.h).
// Straight-line code computes the values and the derivative of the expression. Used by scan.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "etude/base/scalars/expression.h"
#include "etude/diff/internal/replace_scalars.h"
#include "etude/diff/internal/scan/scan_calls.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns a if the condition holds, else b; both are computed. The body of a scan selects numbers
// with this function. For tensors there is an op `where`.
template <class A, class B>
requires(internal::kIsScalar<A> ||
         internal::kIsScalar<B>) constexpr auto where(bool condition, const A& a, const B& b) {
  return condition ? a : b;
}

namespace internal {

template <>
inline constexpr bool kIsScalar<scalar::Symbol> = true;

// The maximum number of operations in the body of a scan.
inline constexpr std::size_t kMostScanNodes = 512;

// Whether the parameters, and each of the sequences, may vary. The state may always vary.
template <bool params, bool... x>
struct ScanVaries {
  static constexpr bool kParams = params;
  static constexpr std::array<bool, sizeof...(x)> kX = {x...};
};

// The body, recorded on symbols: first a node for each input, then a node for each call, and the
// indices of the result nodes.
template <class Body, class State, class Params, class... X>
struct ScanNoted {
  static constexpr std::size_t kState = scalar_count<State>(), kParams = scalar_count<Params>(),
                               kX = (std::size_t{0} + ... + scalar_count<X>()),
                               kInputs = kState + kParams + kX;

  struct Noted {
    std::array<scalar::Node, kMostScanNodes> nodes{};
    std::size_t count = 0;
    std::array<uint16_t, kState> results{};
    // Whether a node depends on parameters and constants only, and so is loop-invariant.
    std::array<bool, kMostScanNodes> is_fixed{};
  };
  // Returns an Out of new symbols, constructed from its parts. A default construction would run the
  // member initialisers of a user's struct.
  template <class Out>
  static constexpr Out new_symbols(scalar::Builder& builder) {
    const auto parts = [&]<class... Part>(std::type_identity<std::tuple<Part...>>) {
      return Out{new_symbols<std::remove_cvref_t<Part>>(builder)...};
    };
    if constexpr (std::is_same_v<Out, scalar::Symbol>) {
      const auto number = static_cast<uint16_t>(builder.size());
      return scalar::Symbol(&builder, builder.add({ScanFn::kOperand, {number}, 0}));
    } else if constexpr (std::is_empty_v<Out>) {
      return Out{};
    } else if constexpr (TupleLike<Out>) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return parts(std::type_identity<std::tuple<std::tuple_element_t<I, Out>...>>());
      }
      (std::make_index_sequence<std::tuple_size_v<Out>>());
    } else {
      return parts(std::type_identity<FieldsOf<Out>>());
    }
  }
  template <class Y>
  static constexpr auto symbols(scalar::Builder& builder) {
    using From = typename ScalarIn<Y>::type;
    if constexpr (std::is_void_v<From>) {
      return new_symbols<Y>(builder);
    } else {
      return new_symbols<replace_scalar_t<Y, From, scalar::Symbol>>(builder);
    }
  }
  static constexpr Noted note() {
    Noted noted;
    scalar::Builder builder(noted.nodes.data(), kMostScanNodes);
    const auto state = symbols<State>(builder);
    const auto params = symbols<Params>(builder);
    const std::tuple<decltype(symbols<X>(builder))...> x{symbols<X>(builder)...};
    const auto result =
        std::apply([&](const auto&... at) { return Body{}(state, params, at...); }, x);
    std::size_t next = 0;
    auto collect = [&](const scalar::Symbol& s) {
      noted.results[next++] = s.node_in(builder);
      return s;
    };
    static_cast<void>(map_scalars<std::remove_cvref_t<decltype(result)>>(result, collect));
    noted.count = builder.size();
    for (std::size_t i = 0; i < noted.count; ++i) {
      const scalar::Node& node = noted.nodes[i];
      noted.is_fixed[i] = node.fn == ScanFn::kOperand
                              ? i >= kState && i < kState + kParams
                              : number_in(node, noted.is_fixed) == scalar::info(node.fn).arity;
    }
    return noted;
  }
  // The number of operands of `node` that are in `set`.
  static constexpr int number_in(const scalar::Node& node,
                                 const std::array<bool, kMostScanNodes>& set) {
    int found = 0;
    for (int i = 0; i < scalar::info(node.fn).arity; ++i) {
      found += set[node.args[static_cast<std::size_t>(i)]] ? 1 : 0;
    }
    return found;
  }
  static constexpr Noted noted = note();
  static constexpr std::size_t kCount = noted.count;
  // The terms of a summing loop: the nodes that a step adds to its only state, in order. `is_sum`
  // is false for other loops.
  struct Terms {
    bool is_sum = false;
    std::size_t count = 0;
    std::array<uint16_t, kMostScanNodes> nodes{};
  };
  static constexpr Terms terms() {
    if (kState != 1) return {};
    std::array<bool, kMostScanNodes> depends{};
    depends[0] = true;  // the state
    for (std::size_t i = kInputs; i < kCount; ++i) {
      depends[i] = number_in(noted.nodes[i], depends) > 0;
    }
    Terms found;
    for (std::size_t node = noted.results[0]; node != 0;) {
      const auto& [a, b, none] = noted.nodes[node].args;
      if (noted.nodes[node].fn != ScanFn::kAdd || depends[a] == depends[b]) return {};
      found.nodes[found.count++] = depends[a] ? b : a;
      node = depends[a] ? a : b;
    }
    for (std::size_t i = 0; i < found.count / 2; ++i) {
      std::swap(found.nodes[i], found.nodes[found.count - 1 - i]);
    }
    found.is_sum = true;
    return found;
  }
  static constexpr Terms kTerms = terms();
};

// The program of a step: the values, and the reverse pass. The compiler knows which nodes receive a
// cotangent.
template <class Body, class Varies, class State, class Params, class... X>
struct ScanProgram : ScanNoted<Body, State, Params, X...> {
  using Base = ScanNoted<Body, State, Params, X...>;
  using Base::kState, Base::kParams, Base::kX, Base::kInputs, Base::noted, Base::kCount,
      Base::kTerms;
  template <std::size_t i>
  static constexpr scalar::Node kNode = noted.nodes[i];

  struct Arrivals {
    // Whether a node depends on varying inputs. Other nodes have no derivative.
    std::array<bool, kMostScanNodes> varies{};
    // `arrives`: whether a node receives a cotangent. `in_step`: whether it receives a cotangent in
    // a step, and not only in reverse_fixed. `first_a`, `first_b`: whether the contribution of this
    // node to its first or second operand is the first contribution to that operand.
    std::array<bool, kMostScanNodes> arrives{}, in_step{}, first_a{}, first_b{};
  };
  static constexpr Arrivals note_arrivals() {
    Arrivals found;
    auto& varies = found.varies;
    std::size_t input = 0;
    for (std::size_t i = 0; i < kState; ++i) varies[input++] = true;
    for (std::size_t i = 0; i < kParams; ++i) varies[input++] = Varies::kParams;
    std::size_t sequence = 0;
    for (const std::size_t width : {std::size_t{0}, scalar_count<X>()...}) {
      for (std::size_t i = 0; i < width; ++i) varies[input++] = Varies::kX[sequence - 1];
      ++sequence;
    }
    for (std::size_t i = kInputs; i < kCount; ++i) {
      const scalar::Node& node = noted.nodes[i];
      const int partials = partials_of(node.fn);
      varies[i] = (partials > 0 && varies[operand_of(node, 0)]) ||
                  (partials > 1 && varies[operand_of(node, 1)]);
    }
    for (const uint16_t r : noted.results) found.arrives[r] = found.in_step[r] = varies[r];
    for (std::size_t i = kCount; i-- > 0;) {
      const scalar::Node& node = noted.nodes[i];
      if (!found.arrives[i] || partials_of(node.fn) == 0) continue;
      const auto arrive = [&](std::size_t operand) {
        if (!varies[operand]) return false;
        found.arrives[operand] = true;
        return !noted.is_fixed[i] && !std::exchange(found.in_step[operand], true);
      };
      found.first_a[i] = arrive(operand_of(node, 0));
      if (partials_of(node.fn) == 2) found.first_b[i] = arrive(operand_of(node, 1));
    }
    return found;
  }
  static constexpr Arrivals arrivals = note_arrivals();
  static constexpr bool is_fixed(std::size_t node) { return noted.is_fixed[node]; }
  // Whether the reverse pass of a step ends at this node. The node then has a cotangent, and is an
  // input or loop-invariant.
  static constexpr bool ends_at(std::size_t node) {
    return arrivals.in_step[node] && (node < kInputs || is_fixed(node));
  }
  // Whether number c of the elements may vary.
  static constexpr bool x_varies(std::size_t c) { return arrivals.varies[kState + kParams + c]; }

  // Values, or cotangents, by node.
  template <class T>
  using Nodes = std::array<T, kCount>;
  static constexpr auto kCalls = std::make_index_sequence<kCount - kInputs>();

  // Returns the values of the loop-invariant nodes; 0 for other nodes.
  template <class T>
  static Nodes<T> fixed_values(const std::array<T, kParams>& params) {
    Nodes<T> values{};
    for (std::size_t i = 0; i < kParams; ++i) values[kState + i] = params[i];
    [&]<std::size_t... I>(std::index_sequence<I...>) { (compute<I + kInputs, true>(values), ...); }
    (kCalls);
    return values;
  }
  // `totals` holds the cotangents of the loop-invariant nodes, summed over all steps. Computes the
  // cotangents of the parameters from these sums and adds them to `totals`.
  template <class T>
  static void reverse_fixed(const Nodes<T>& values, Nodes<T>& totals) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (go_back<kCount - 1 - I, true, true>(values, totals), ...);
    }
    (kCalls);
  }

  // One step. The constructor computes the values. reverse() runs the reverse pass.
  template <class T>
  class Sweep {
   public:
    [[gnu::always_inline]] Sweep(const std::array<T, kState>& state, const Nodes<T>& fixed,
                                 const std::array<T, kX>& x) {
      for (std::size_t i = 0; i < kState; ++i) values_[i] = state[i];
      for (std::size_t i = 0; i < kX; ++i) values_[kState + kParams + i] = x[i];
      [&]<std::size_t... I>(std::index_sequence<I...>) { (take<I + kState>(fixed), ...); }
      (std::make_index_sequence<kCount - kState>());
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (compute<I + kInputs, false>(values_), ...);
      }
      (kCalls);
    }
    [[gnu::always_inline]] std::array<T, kState> results() const {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::array<T, kState>{values_[noted.results[I]]...};
      }
      (std::make_index_sequence<kState>());
    }
    // The k-th term that this step of a summing loop adds.
    template <std::size_t k>
    [[gnu::always_inline]] const T& term() const {
      return values_[kTerms.nodes[k]];
    }
    // The reverse pass. `ct` holds the cotangents of the results, and on return the cotangents of
    // the state before the step. The cotangents of loop-invariant nodes are added to `totals`.
    //
    // The first pass uses plain products. A plain product of 0 and an infinity is NaN, and the NaN
    // reaches a result. If a result may be NaN, the pass runs again with strong products.
    [[gnu::always_inline]] void reverse(std::array<T, kState>& ct, Nodes<T>& totals,
                                        std::array<T, kX>& of_x) const {
      T at[kCount];
      go_back_over<false>(values_, at, ct);
      if (may_be_nan(sum_of_arrived(at))) [[unlikely]] {
        Copies copies;  // so that only the copies are in memory
        each_node([&]<std::size_t i>() { copies.values[i] = values_[i]; });
        copies.ct = ct;
        go_back_with_care(copies);
        each_node([&]<std::size_t i>() { at[i] = copies.at[i]; });
      }
      each_node([&]<std::size_t i>() {
        if constexpr (ends_at(i) && is_fixed(i)) totals[i] += at[i];
      });
      for (std::size_t i = 0; i < kState; ++i) ct[i] = arrived(at, i);
      for (std::size_t i = 0; i < kX; ++i) of_x[i] = arrived(at, kState + kParams + i);
    }

   private:
    struct Copies {
      T values[kCount], at[kCount];
      std::array<T, kState> ct;
    };
    template <class Fn>
    [[gnu::always_inline]] static void each_node(const Fn& fn) {
      [&]<std::size_t... I>(std::index_sequence<I...>) { (fn.template operator()<I>(), ...); }
      (std::make_index_sequence<kCount>());
    }
    template <bool careful>
    [[gnu::always_inline]] static void go_back_over(const T* values, T* at,
                                                    const std::array<T, kState>& ct) {
      seed(at, ct, std::make_index_sequence<kState>());
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (go_back<kCount - 1 - I, false, careful>(values, at), ...);
      }
      (kCalls);
    }
    [[gnu::noinline, gnu::cold]] static void go_back_with_care(Copies& copies) {
      each_node([&]<std::size_t i>() { copies.at[i] = T(0); });
      go_back_over<true>(copies.values, copies.at, copies.ct);
    }
    [[gnu::always_inline]] static T sum_of_arrived(const T* at) {
      T sum(0);
      each_node([&]<std::size_t i>() {
        if constexpr (ends_at(i)) sum += at[i];
      });
      return sum;
    }
    [[gnu::always_inline]] static T arrived(const T* at, std::size_t i) {
      return arrivals.in_step[i] ? at[i] : T(0);
    }
    template <std::size_t i>
    [[gnu::always_inline]] void take(const Nodes<T>& fixed) {
      if constexpr (kNode<i>.fn == ScanFn::kConstant) {
        values_[i] = T(kNode<i>.constant);  // visible to the compiler
      } else if constexpr (noted.is_fixed[i]) {
        values_[i] = fixed[i];
      }
    }
    template <std::size_t... I>
    [[gnu::always_inline]] static void seed(T* at, const std::array<T, kState>& ct,
                                            std::index_sequence<I...>) {
      const auto one = [&]<std::size_t i>() {
        constexpr uint16_t r = noted.results[i];
        constexpr bool first = [] {
          for (std::size_t j = 0; j < i; ++j) {
            if (noted.results[j] == noted.results[i]) return false;
          }
          return true;
        }();
        arrive<r, first>(at, ct[i]);
      };
      (one.template operator()<I>(), ...);
    }

    T values_[kCount];
  };

 private:
  template <std::size_t i, bool of_fixed, class Values>
  [[gnu::always_inline]] static void compute(Values& values) {
    constexpr scalar::Node node = kNode<i>;
    if constexpr (noted.is_fixed[i] == of_fixed) {
      using T = std::remove_cvref_t<decltype(values[0])>;
      const T &a = values[node.args[0]], &b = values[node.args[1]];
      if constexpr (node.fn == ScanFn::kConstant) {
        values[i] = T(node.constant);
      } else if constexpr (node.fn == ScanFn::kWhere) {
        values[i] = choose(a, b, values[node.args[2]]);
      } else {
        values[i] = scan_value<node.fn>(a, b);
      }
    }
  }
  // Adds a cotangent to node i, if the node may vary. `first`: whether this is the first
  // contribution in the step.
  template <std::size_t i, bool first, class At, class T>
  [[gnu::always_inline]] static void arrive(At& at, const T& ct) {
    if constexpr (!arrivals.varies[i]) {
    } else if constexpr (first) {
      at[i] = ct;
    } else {
      at[i] += ct;
    }
  }
  template <std::size_t i, bool of_fixed, bool careful, class Values, class At>
  [[gnu::always_inline]] static void go_back(const Values& values, At& at) {
    constexpr scalar::Node node = kNode<i>;
    if constexpr (noted.is_fixed[i] == of_fixed && arrivals.arrives[i] &&
                  partials_of(node.fn) > 0) {
      constexpr uint16_t to_a = operand_of(node, 0), to_b = operand_of(node, 1);
      using T = std::remove_cvref_t<decltype(at[0])>;
      constexpr bool first_a = arrivals.first_a[i], first_b = arrivals.first_b[i];
      const T ct = at[i];
      const T &a = values[to_a], &b = values[to_b];
      if constexpr (node.fn == ScanFn::kAdd || node.fn == ScanFn::kSubtract) {
        arrive<to_a, first_a>(at, ct);
        arrive<to_b, first_b>(at, node.fn == ScanFn::kAdd ? ct : -ct);
      } else if constexpr (node.fn == ScanFn::kNegative) {
        arrive<to_a, first_a>(at, -ct);
      } else if constexpr (node.fn == ScanFn::kWhere) {
        const T& condition = values[node.args[0]];
        arrive<to_a, first_a>(at, choose(condition, ct, T(0)));
        arrive<to_b, first_b>(at, choose(condition, T(0), ct));
      } else {
        const T& y = values[i];
        if constexpr (arrivals.varies[to_a]) {
          arrive<to_a, first_a>(at, times<careful>(ct, scan_partial<node.fn, 0>(a, b, y)));
        }
        if constexpr (partials_of(node.fn) == 2 && arrivals.varies[to_b]) {
          arrive<to_b, first_b>(at, times<careful>(ct, scan_partial<node.fn, 1>(a, b, y)));
        }
      }
    }
  }
  template <bool careful, class T>
  [[gnu::always_inline]] static T times(const T& ct, const T& partial) {
    using scalar_math::strong_product;
    if constexpr (careful) {
      return strong_product(ct, partial);
    } else {
      return ct * partial;
    }
  }
};

}  // namespace internal
}  // namespace etude
