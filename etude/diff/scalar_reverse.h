// SPDX-License-Identifier: Apache-2.0
// Runs of reverse mode on numbers, for scalar_operators.h: a function is called with active
// numbers, which record on a tape.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/diff/active.h"
#include "etude/diff/scalar_runs.h"
#include "etude/diff/scalar_tape.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The number type of the tape, and what f is called with.
template <class F, class... X>
struct ReverseTypes {
  using From = CommonScalar<X...>;
  static constexpr bool is_generic = kTakes<Active<From>, F, X...>;
  // A function on Real with arguments that are Real already.
  static constexpr bool is_real = !is_generic && IsActive<From>::value;
  static_assert(
      is_generic || is_real,
      "etude: the function cannot be called with active scalars; make it and the structs it "
      "takes generic (auto parameters, templates on the scalar) or let them use "
      "etude::Real");
  using To = std::conditional_t<is_real, From, Active<From>>;
  using Number = typename To::Value;
};

// Makes a tape the current one of its thread while it lives.
template <class T>
class RecordingScope {
 public:
  explicit RecordingScope(ScalarTape<T>& tape) : outer_(std::exchange(current(), &tape)) {
    tape.set_outer(outer_);
  }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
  ~RecordingScope() {
    current()->set_outer(nullptr);
    current() = outer_;
  }

 private:
  static ScalarTape<T>*& current() { return ScalarTape<T>::current(); }
  ScalarTape<T>* outer_;
};

// Cotangents by slot, in memory that a thread keeps.
template <class T>
class Cotangents {
 public:
  explicit Cotangents(std::size_t size) : values_(std::exchange(kept(), {})) {
    values_.assign(size, T(0));
  }
  Cotangents(const Cotangents&) = delete;
  Cotangents& operator=(const Cotangents&) = delete;
  ~Cotangents() {
    if (values_.capacity() <= kMostKept) kept() = std::move(values_);
  }
  std::vector<T>& values() { return values_; }

 private:
  static constexpr std::size_t kMostKept = 1 << 24;  // 128 MiB of double
  static std::vector<T>& kept() {
    thread_local std::vector<T> values;
    return values;
  }
  std::vector<T> values_;
};

[[noreturn]] inline void throw_second_order() {
  throw Error(ErrorCode::kInvalidArgument,
              "gradient: an argument belongs to an outer derivative, and functions on Real are "
              "differentiated once. Make the inner function generic (auto parameters)");
}

// The inputs of a tape, in the order of the leaves of the arguments: slots 1, 2, ...
template <class To, class T>
struct MakeInputs {
  ScalarTape<T>& tape;
  template <class S>
  To operator()(const S& x) {
    if constexpr (std::is_same_v<S, To>) {
      if (x.varies()) throw_second_order();
      return To::input(x.value(), tape);
    } else {
      return To::input(x, tape);
    }
  }
};
// A result with plain numbers in place of those of the derivative.
template <class Active, class From, class R>
auto plain_result(const R& result) {
  auto value = [](const Active& v) -> From {
    if constexpr (std::is_same_v<From, Active>) {
      return stop_gradient(v);
    } else {
      return v.value();
    }
  };
  return map_scalars<replace_scalar_t<R, Active, From>>(result, value);
}

[[noreturn]] inline void throw_cotangent_size(std::size_t got, std::size_t needed) {
  throw Error(ErrorCode::kInvalidArgument, "pullback: the cotangent has " + std::to_string(got) +
                                               " numbers, but the result has " +
                                               std::to_string(needed) +
                                               ". Make it with zero_tangent(value)");
}

// What a pullback keeps: the tape and where its results and arguments are.
template <class T, class R, class... X>
struct PulledScalars {
  ScalarTape<T> tape;
  std::vector<std::uint32_t> slots;  // of the numbers of the result
  std::tuple<X...> arguments;        // for the shapes of their tangents
};

template <class F, class... X>
auto reverse_gradient(const F& f, const X&... x) {
  using Types = ReverseTypes<F, X...>;
  using T = typename Types::Number;
  using To = typename Types::To;
  ScalarTape<T> tape;
  MakeInputs<To, T> inputs{tape};
  auto lifted = lift_arguments<typename Types::From, To>(inputs, x...);
  const auto result = [&] {
    const RecordingScope<T> scope(tape);
    return std::apply(f, lifted);
  }();
  require_number<std::remove_cvref_t<decltype(result)>, To>();
  Cotangents<T> cotangents(tape.size());
  cotangents.values()[result.slot_on(tape)] = T(1);
  tape.reverse(cotangents.values());
  return std::pair{plain_result<To, typename Types::From>(result),
                   tangents_of(cotangents.values(), 1, x...)};
}

}  // namespace internal
}  // namespace etude
