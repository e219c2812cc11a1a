// SPDX-License-Identifier: Apache-2.0
// host_function(f, results): a callable like f. If a graph contains the call, each run of the graph
// runs f itself, as host code. So staged code can call host code, with derivatives.
//
//   const auto huber = host_function([](const Tensor& x, const Tensor& m) {
//     if (abs(x).item<float>() <= m.item<float>()) return x * x;   // decided at every run
//     return m * (2.0F * abs(x) - m);
//   }, TensorSpec{{}, kFloat32});
//   const auto f = function([&](const Tensor& x) { return huber(x, Tensor(2.0F)) + 1.0F; });
//   const Tensor slope = gradient(f)(Tensor(1.0F));   // 2
//
// The types of the results are declared, since a graph must know them before f runs.
//
// Outside of traces a call is a plain call of f, with derivatives of any order. The types of the
// results are checked. In a graph, including its branches and loop bodies, f runs at each run of
// the call. The runs are in program order, on the thread that runs the graph. The tensors that f
// receives have elements. f runs outside of the tapes, vmaps and traces of its caller. It has the
// caller's phase, default dtype and promotion, and the floating-point mode of the thread. In a vmap
// f runs once for each example.
//
// Derivatives in graphs: the reverse pass runs f once more, under a tape of its own. Forward mode
// runs f once more with tangents. So f must compute the same values each time, and its side effects
// happen again. In a graph f must not draw random numbers; pass a key instead. There are no second
// derivatives through a graph. The gradient of an input that f does not use is zero in a graph, and
// absent in a plain call.
//
// A graph with such a call keeps f alive. The graph cannot be written to files or compiled ahead of
// time.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/stage/function.h"
#include "etude/stage/internal/host_call.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct HostOptions {
  std::string name = {};  // for messages; default: the line that made the function
  // The Variables that f reads and that get gradients. In a graph, f sees their values at this
  // point of the program. While a derivative is taken, f must not read another trainable Variable.
  std::vector<Variable> variables = {};
};

// The declared results: a TensorSpec, a list of TensorSpecs, or {} for no results. All sizes must
// be known.
class HostResults {
 public:
  HostResults() = default;
  HostResults(TensorSpec one) : specs_{std::move(one)} {}
  HostResults(std::initializer_list<TensorSpec> list) : specs_(list) {}
  HostResults(std::vector<TensorSpec> list) : specs_(std::move(list)) {}
  const std::vector<TensorSpec>& specs() const noexcept { return specs_; }

 private:
  std::vector<TensorSpec> specs_;
};

template <class Signature>
class HostFunction;

// A value; copies share the callable. Callable from any thread, so f may run on several threads at
// once.
template <class R, class... A>
class HostFunction<R(A...)> {
  static_assert(std::is_void_v<R> || HasLeaf<R, Tensor, Marked::kVisit>::value,
                "etude: host_function(): the callable returns tensors: a Tensor, a tuple or a "
                "struct of them, a std::vector<Tensor>, or void");
  static_assert((!internal::kIsInOut<A> && ...),
                "etude: host_function(): take arguments by value or by const reference: a graph "
                "has no place for a changed argument. Return the new value");
  static_assert(
      (std::is_copy_constructible_v<std::decay_t<A>> && ...),
      "etude: host_function(): a graph keeps copies of the arguments that are not tensors");

 public:
  // Use host_function() to make a HostFunction.
  template <class F>
  HostFunction(F f, const HostResults& results, HostOptions options, CallSite where)
      : facts_(internal::make_ref<const internal::HostFacts>(
            std::move(options.name), results.specs(), std::move(options.variables), where)),
        f_(std::make_shared<const Host>(std::move(f))) {
    internal::require_owned<F&, A...>();
    if constexpr (kTakesTensors) {
      shared_ = internal::RefPtr<const internal::HostCallable>(
          new Bound(facts_, f_, {}, std::vector<bool>(sizeof...(A), true)));
    }
  }

  // throws: an exception of f, as an Error whose cause() is the exception. std::invalid_argument,
  //   domain_error, length_error, bad_cast and bad_variant_access are kInvalidArgument,
  //   std::out_of_range is kOutOfRange, std::bad_alloc is kResourceExhausted, and all others are
  //   kFailedPrecondition. An Error of f keeps its own code and line. Also throws kInvalidArgument
  //   for results of other types than declared.
  //
  // A derivative through a graph throws kFailedPrecondition if f reads a trainable Variable that
  // the options do not list. A second derivative through a graph throws kUnimplemented.
  R operator()(A... args, CallSite where = CallSite::here()) const {
    std::vector<Tensor> inputs;
    std::vector<bool> present;
    const auto add = [&](const Tensor& x) {
      present.push_back(x.has_value());
      if (x.has_value()) inputs.push_back(x);
    };
    (each_tensor(args, add), ...);
    if (internal::is_plain_host_call(inputs)) return run_plain(where, args...);
    const bool is_whole = inputs.size() == present.size();
    const internal::RefPtr<const internal::HostCallable> bound =
        kTakesTensors && is_whole ? shared_
                                  : internal::RefPtr<const internal::HostCallable>(new Bound(
                                        facts_, f_, without_elements(args...), std::move(present)));
    std::vector<Tensor> out = internal::call_host(bound, inputs, where);
    if constexpr (!std::is_void_v<R>) return with_structure(std::move(out), where);
  }

  const std::string& name() const noexcept { return facts_->name; }

 private:
  using Host = std::function<R(A...)>;
  using Arguments = std::tuple<std::decay_t<A>...>;
  static constexpr bool kTakesTensors = (std::is_same_v<std::decay_t<A>, Tensor> && ...);

  template <class X, class Fn>
  static void each_tensor(X& x, Fn&& fn) {
    if constexpr (HasLeaf<std::remove_const_t<X>, Tensor, Marked::kVisit>::value) {
      for_each_leaf<Tensor, Marked::kVisit>(x, fn);
    }
  }
  template <class X>
  static std::vector<Tensor> tensors_of(const X& x) {
    std::vector<Tensor> out;
    each_tensor(x, [&](const Tensor& t) { out.push_back(t); });
    return out;
  }
  // Returns copies of the arguments with absent tensors: a graph keeps no elements of an argument.
  template <class... X>
  static Arguments without_elements(const X&... args) {
    Arguments out(args...);
    const auto drop = [](Tensor& x) { x = Tensor(); };
    std::apply([&](auto&... arg) { (each_tensor(arg, drop), ...); }, out);
    return out;
  }

  // f, together with all its arguments except tensors.
  class Bound final : public internal::HostCallable {
   public:
    Bound(internal::RefPtr<const internal::HostFacts> facts, std::shared_ptr<const Host> f,
          Arguments arguments, std::vector<bool> present)
        : HostCallable(std::move(facts)),
          f_(std::move(f)),
          arguments_(std::move(arguments)),
          present_(std::move(present)) {}

    std::vector<Tensor> run(std::span<const Tensor> inputs) const override {
      Arguments args = arguments_;
      std::size_t at = 0, next = 0;
      const auto put = [&](Tensor& x) {
        if (present_[at++]) x = inputs[next++];
      };
      return std::apply(
          [&](auto&... arg) {
            (each_tensor(arg, put), ...);
            if constexpr (std::is_void_v<R>) {
              (*f_)(static_cast<A>(arg)...);
              return std::vector<Tensor>();
            } else {
              return tensors_of<R>((*f_)(static_cast<A>(arg)...));
            }
          },
          args);
    }

   private:
    std::shared_ptr<const Host> f_;
    Arguments arguments_;
    std::vector<bool> present_;
  };

  template <class... X>
  R run_plain(CallSite where, X&... args) const {
    return internal::located(facts_->title(), where, [&] {
      if constexpr (std::is_void_v<R>) {
        internal::run_host_code(*facts_, [&] { (*f_)(static_cast<A>(args)...); });
        internal::require_declared(*facts_, {});
      } else {
        std::optional<R> out;
        internal::run_host_code(*facts_, [&] { out.emplace((*f_)(static_cast<A>(args)...)); });
        internal::require_declared(*facts_, tensors_of<R>(*out));
        return *std::move(out);
      }
    });
  }

  template <class Result = R>
  Result with_structure(std::vector<Tensor> tensors, CallSite where) const {
    if constexpr (std::is_same_v<Result, Tensor>) {
      return internal::located(facts_->title(), where, [&] {
        if (tensors.size() != 1) internal::throw_no_structure(*facts_, 1);
        return std::move(tensors[0]);
      });
    } else if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
      return tensors;
    } else {
      static_assert(std::is_default_constructible_v<Result>,
                    "etude: host_function(): a graph makes the result by its default constructor");
      return internal::located(facts_->title(), where, [&] {
        Result out{};
        const std::size_t held = tensors_of(out).size();
        if (held != tensors.size()) internal::throw_no_structure(*facts_, held);
        std::size_t next = 0;
        each_tensor(out, [&](Tensor& x) { x = std::move(tensors[next++]); });
        return out;
      });
    }
  }

  internal::RefPtr<const internal::HostFacts> facts_;
  std::shared_ptr<const Host> f_;
  internal::RefPtr<const internal::HostCallable> shared_;  // if all parameters are tensors
};

// Makes a host function with the parameters and the result of f. f is a lambda, a function, or a
// member function. A generic lambda needs the signature: host_function<Tensor(const Tensor&)>(f,
// spec).
//
// throws: kInvalidArgument for a declared size that is kAny.
template <class F>
auto host_function(F f, HostResults results = {}, HostOptions options = {},
                   CallSite where = CallSite::here()) {
  if constexpr (!internal::kHasSignature<F>) {
    return internal::kRefused<internal::FunctionNeedsSignature<F>>;
  } else if constexpr (std::is_member_function_pointer_v<F>) {
    return HostFunction<signature_of_t<F>>(std::mem_fn(f), results, std::move(options), where);
  } else {
    return HostFunction<signature_of_t<F>>(std::move(f), results, std::move(options), where);
  }
}
template <class Signature, class F>
requires std::is_function_v<Signature>
auto host_function(F f, HostResults results = {}, HostOptions options = {},
                   CallSite where = CallSite::here()) {
  return HostFunction<Signature>(std::move(f), results, std::move(options), where);
}

}  // namespace etude
