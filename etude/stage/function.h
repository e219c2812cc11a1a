// SPDX-License-Identifier: Apache-2.0
// function(f): a callable like f. A call with a new kind of arguments traces f into a graph. Later
// calls run this graph instead of f.
//
//   auto step = function([](Line& line, const Tensor& x, const Tensor& y) {
//     const auto [loss, slope] = value_with_gradient(
//         [&](const Line& l) { return mean(square(matmul(x, l.w) + l.b - y)); }, line);
//     move(line, -0.1F * slope);
//     return loss;
//   });
//   for (int i = 0; i < 100; ++i) step(line, x, y);   // one trace; the line moves
//
// f may do anything that eager code may do, such as take gradients, draw random numbers, call other
// functions, and loop on the host. Host code runs only while f is traced. So its decisions are
// fixed in the graph.
//
// Arguments are pytrees. Tensors become inputs of the graph. Numbers, texts, sizes of containers
// and all other host values are fixed in the graph. A call with other host values makes another
// graph. A parameter of type non-const reference is in-out: the call changes it, as a plain call
// does. A call may add parts to an in-out argument, as the first update of an optimiser adds its
// state, or may remove parts. The next call then makes another graph.
//
// Variables that f uses need not be arguments. Each call reads and assigns them in the same order
// as f. f may make Variables in its first call. If the initial value of such a Variable depends on
// an argument, the first call runs f itself, and the next call is traced. If a call throws,
// arguments and Variables keep their values.
//
// Tensors from outside that f uses are captured: the graph does not see later writes to them. The
// same is true for host values that f uses by reference. Inside a vmap the call may capture an
// example of the batch. The graph is then valid in that vmap only. If an argument is a
// std::shared_ptr, the graph stores only a std::weak_ptr to the object. If the object is destroyed,
// its graph is dropped the next time that a graph is made or listed. Sparse gradients remain sparse
// as results. Without a signature they also remain sparse as arguments.
//
// Where f takes a tensor, a call may pass numbers, nested lists, arrays and spans of numbers. Each
// call reads them, in the dtype of the signature, if any.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/internal/owned_result.h"
#include "etude/stage/function_core.h"
#include "etude/stage/internal/given.h"
#include "etude/variables/init_scope.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// One graph of a function: a value. threads: thread-safe.
class GraphFunction {
 public:
  explicit GraphFunction(internal::TraceRef trace) : trace_(std::move(trace)) {}

  const Graph& graph() const noexcept { return *trace_->graph; }
  const std::string& name() const noexcept { return graph().name(); }
  // The captured tensors, in the order of their graph inputs.
  const std::vector<Tensor>& captures() const noexcept { return trace_->captures; }
  // The symbolic graph, which serves many sizes (graph/symbolic_graph.h); null if the graph serves
  // only its own sizes.
  const internal::RefPtr<const SymbolicGraph>& symbolic_graph() const noexcept {
    return trace_->symbolic;
  }
  // The text of the graph (graph/text/print.h). The text has types, but no elements of long
  // constants.
  std::string to_string() const;

 protected:
  internal::TraceRef trace_;
};

std::ostream& operator<<(std::ostream& out, const GraphFunction& function);

namespace internal {

template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
  using type = owned_t<R>(A...);
};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...)> {
  using type = owned_t<R>(A...);
  using with_object = owned_t<R>(C&, A...);
};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const> {
  using type = owned_t<R>(A...);
  using with_object = owned_t<R>(const C&, A...);
};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (C::*)(A...) const> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) noexcept> : SignatureOf<R (C::*)(A...)> {};

template <class F>
struct SignatureFor {
  using type = typename SignatureOf<F>::type;
};
template <class F>
requires std::is_member_function_pointer_v<F>
struct SignatureFor<F> {
  using type = typename SignatureOf<F>::with_object;
};

// Whether F states its argument types. A generic lambda, or a class with several call operators,
// does not state them.
template <class F>
inline constexpr bool kHasSignature = !std::is_class_v<F> || requires {
  &F::operator();
};
template <class F>
struct FunctionNeedsSignature {
  static constexpr bool has_signature = sizeof(F*) == 0;
  static_assert(has_signature,
                "etude: function() of a generic lambda, or of a class with several call operators, "
                "needs the signature: function<Tensor(const Tensor&)>(f)");
};

template <class A>
inline constexpr bool kIsInOut =
    std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;

// throws: kInvalidArgument, always: the function changed an argument in a way that a graph cannot
//   repeat.
[[noreturn]] void throw_host_change(const std::string& name, const std::string& path);
// Records whether the function may write the next `count` tensors of a call.
void mark_tensors(std::vector<uint8_t>& may_write, std::size_t count, bool is_in_out);
// throws: kInvalidArgument if a tensor that the function may write was passed twice.
void require_distinct(const Arguments& call, const std::vector<uint8_t>& may_write,
                      const ArgumentNames& names);
// throws: kFailedPrecondition if there is no signature.
void require_has_signature(const FunctionOptions& options, CallSite where);
// throws: kInvalidArgument, always, with the difference between this call and the call of the
//   trace.
[[noreturn]] void throw_unfit(const Trace& trace, const Arguments& call, const ArgumentNames& names,
                              CallSite where);
// Whether `after` has the same structure as the arguments before the call: the same numbers of
// tensors and host values.
bool has_form(const TraceKey& kept, const Arguments& after);
// Returns the path of the first host value or object that differs between two flattenings of
// arguments with the same structure; empty if all are equal.
std::string find_change(const TraceKey& kept, const Arguments& after, const ArgumentNames& names);

}  // namespace internal

template <class F>
using signature_of_t = typename internal::SignatureFor<F>::type;

template <class Signature>
class Function;

// A graph of a Function. A call takes the host values of the trace, and tensors of the types in the
// graph. If there is a symbolic graph, the tensors may have all sizes that it serves.
// threads: thread-safe.
template <class Signature>
class CallableGraph;
template <class R, class... A>
class CallableGraph<R(A...)> : public GraphFunction {
 public:
  CallableGraph(Function<R(A...)> function, internal::TraceRef trace)
      : GraphFunction(std::move(trace)), function_(std::move(function)) {}

  // Returns the result of the function, computed by this graph. throws: kInvalidArgument, naming
  // the argument, if the arguments do not fit the graph; the errors of the function.
  R operator()(A... args, CallSite where = CallSite::here()) const {
    return function_.run_graph(trace_, where, args...);
  }

 private:
  Function<R(A...)> function_;
};

// A value. Copies share their graphs, which are released with the last copy. threads: thread-safe.
template <class R, class... A>
class Function<R(A...)> {
  static_assert((!std::is_rvalue_reference_v<A> && ...),
                "etude: function(): take arguments by value or by reference, not by &&");
  static_assert(!HasLeaf<R, Variable, Marked::kVisit>::value ||
                    internal::holds_runtime_structure<R>(),
                "etude: function(): a graph returns values, not Variables: return v.read()");
  static_assert((std::is_copy_constructible_v<std::decay_t<A>> && ...),
                "etude: function(): arguments are copied while the function is traced");
  static_assert(((!internal::kIsInOut<A> || std::is_move_assignable_v<std::decay_t<A>>)&&...),
                "etude: function(): an argument by reference is assigned: the call may give it "
                "other parts");

 public:
  // Use function() to make a Function.
  template <class F>
  Function(F f, FunctionOptions options, CallSite where)
      : core_(std::make_shared<internal::FunctionCore>(std::move(options), typeid(F), where)),
        host_(std::make_shared<const std::function<R(A...)>>(std::move(f))) {
    internal::require_owned<F&, A...>();
    if constexpr ((kIsOneSpec<std::decay_t<A>> && ...)) {
      if (core_->options().signature) {
        internal::require_parameters(*core_->options().signature,
                                     (std::size_t{kHasSpec<std::decay_t<A>>} + ... + 0), name());
      }
    }
  }

  // Takes the arguments of f, and returns the result of f. If the result is a pytree, it has the
  // structure of the result that f returned when f was traced. Host data may replace a tensor:
  // f({{1, 2}, {3, 4}}), f(std::span<const float>(x)).
  //
  // throws: the errors of f while f is traced; the errors of calls in the graph, at their lines in
  //   f; kInvalidArgument if f changed host values of an in-out argument; kFailedPrecondition if f
  //   reads elements of a tensor while f is traced, since tensors then have no elements.
  // cost: about 100 ns more than the graph; f runs once for each new kind of arguments.
  R operator()(internal::given_t<A>... given, CallSite where = CallSite::here()) const {
    if constexpr ((internal::kIsGivenTensor<internal::given_t<A>> || ...)) {
      if ((internal::is_host_data(given) || ...)) [[unlikely]] {
        return run_host_data(where, given...);
      }
    }
    return run(where, internal::argument_of(given)...);
  }

  using GraphOf = CallableGraph<R(A...)>;
  // Returns the graph made from the signature. Host arguments have their default values.
  // throws: kFailedPrecondition without a signature, and if host code reads a size that the
  //   signature leaves open; kInvalidArgument if signature and arguments have different numbers of
  //   tensors.
  GraphOf trace(CallSite where = CallSite::here()) const
      requires(sizeof...(A) > 0 && (std::is_default_constructible_v<std::decay_t<A>> && ...)) {
    internal::require_has_signature(core_->options(), where);
    std::tuple<std::decay_t<A>...> copies;
    return std::apply(
        [&](auto&... copy) {
          internal::ArgumentNames names;
          Arguments call;
          collect(call, internal::PathNames(names), copy...);
          return GraphOf(*this,
                         core_->trace_of_signature(call, names, host_run(names, copy...), where));
        },
        copies);
  }
  // Returns the graph for arguments like these. Makes the graph if there is none. Runs no graph.
  GraphOf trace(const std::decay_t<A>&... args, CallSite where = CallSite::here()) const {
    std::tuple<std::decay_t<A>...> copies(args...);
    return std::apply(
        [&](auto&... copy) {
          internal::Arguments call = new_arguments();
          collect(call, internal::NoNames(), copy...);
          internal::TraceRef trace = core_->find(call);
          return GraphOf(*this, trace ? trace : make_trace(call, nullptr, where, copy...));
        },
        copies);
  }
  // All graphs, oldest first.
  std::vector<GraphOf> traces() const {
    std::vector<GraphOf> out;
    for (const internal::TraceRef& trace : core_->traces()) out.emplace_back(*this, trace);
    return out;
  }
  std::size_t trace_count() const { return core_->traces().size(); }
  // The Variables from outside that the graphs use, in the order of their first use.
  std::vector<Variable> variables() const { return core_->variables(); }
  std::vector<Variable> trainable_variables() const {
    std::vector<Variable> out = core_->variables();
    std::erase_if(out, [](const Variable& v) { return !v.trainable(); });
    return out;
  }
  // Returns one line per graph: the arguments of its trace, and the reason for the trace. Shows the
  // latest 16 graphs, with 8 inputs each. Inputs that differ between graphs come first. The option
  // `all` shows all graphs and inputs.
  std::string explain(const ExplainOptions& options = {}) const { return core_->explain(options); }
  const std::string& name() const { return core_->name(); }

 private:
  friend GraphOf;
  using Arguments = internal::Arguments;

  template <class... X>
  R run(CallSite where, X&... args) const {
    if (core_->runs_eagerly()) return (*host_)(static_cast<A>(args)...);
    Arguments call = new_arguments();
    collect(call, internal::NoNames(), args...);
    internal::TraceRef trace = core_->find(call);
    if (!trace) {
      internal::FirstRun first;
      trace = make_trace(call, &first, where, args...);
      if (!trace) return (*host_)(static_cast<A>(args)...);
    }
    return run_trace(*trace, call, where, args...);
  }

  // Converts host data to tensors, then runs the call.
  template <class... Given>
  [[gnu::cold, gnu::noinline]] R run_host_data(CallSite where, Given&... given) const {
    std::array<Tensor, sizeof...(A)> held;
    std::size_t argument = 0, tensor = 0;
    const auto read = [&](auto& g) {
      if constexpr (internal::kIsGivenTensor<std::remove_reference_t<decltype(g)>>) {
        if (g.source().read != nullptr) {
          held[argument] = core_->read_host_data(g.source(), argument, tensor, where);
          g.set(held[argument]);
        }
        ++tensor;
      } else {
        Arguments own = new_arguments();
        internal::ArgumentFlattener<internal::NoNames>(own, {}).argument("", g);
        tensor += own.tensors.size();
      }
      ++argument;
    };
    (read(given), ...);
    return run(where, internal::argument_of(given)...);
  }

  template <class... X>
  R run_graph(const internal::TraceRef& trace, CallSite where, X&... args) const {
    Arguments call = new_arguments();
    collect(call, internal::NoNames(), args...);
    const internal::TraceRef fitting = core_->fitting(trace, call);
    if (!fitting) {
      internal::ArgumentNames names;
      Arguments again = new_arguments();
      collect(again, internal::PathNames(names), args...);
      internal::throw_unfit(*trace, call, names, where);
    }
    return run_trace(*fitting, call, where, args...);
  }

  template <class... X>
  R run_trace(const internal::Trace& trace, const Arguments& call, CallSite where,
              X&... args) const {
    // Nothing may fail after the run, since the run may have reused the memory of arguments.
    if constexpr (std::is_void_v<R>) {
      Values out = core_->run(trace, call, where);
      take_back(trace, call, out, 0, args...);
    } else {
      R result = *static_cast<const R*>(trace.result.get());
      Values out = core_->run(trace, call, where);
      take_back(trace, call, out, fill(result, out), args...);
      return result;
    }
  }

  // Returns empty arguments, for a flattening to fill. Without a signature, a flattening splits
  // sparse tensors into indices and values.
  Arguments new_arguments() const {
    Arguments out;
    out.splits_slices = !core_->options().signature;
    return out;
  }

  // Whether a signature has a spec for a parameter of type X.
  template <class X>
  static constexpr bool kHasSpec = std::is_same_v<X, Tensor> || std::is_same_v<X, Variable>;
  template <class X>
  static constexpr bool kIsOneSpec = kHasSpec<X> || std::is_arithmetic_v<X> || std::is_enum_v<X>;

  template <class Names, class... X>
  void collect(Arguments& to, Names names, X&... args) const {
    internal::ArgumentFlattener<Names> walk(to, std::move(names));
    [[maybe_unused]] std::size_t i = 0;
    if constexpr (std::is_same_v<Names, internal::NoNames>) {
      (walk.argument("", args), ...);
    } else {
      (walk.argument(core_->argument_name(i++), args), ...);
    }
  }

  template <class... X>
  internal::TraceRef make_trace(const Arguments& call, internal::FirstRun* first, CallSite where,
                                X&... args) const {
    internal::ArgumentNames names;
    Arguments again = new_arguments();
    collect(again, internal::PathNames(names), args...);
    check_distinct(call, names, args...);
    return core_->find_or_trace(call, names, host_run(names, args...), first, where);
  }

  template <class... X>
  internal::HostRun host_run(const internal::ArgumentNames& names, X&... args) const {
    return [this, &names, &args...](std::span<const Tensor> inputs,
                                    std::span<const Variable> variables) {
      std::tuple<std::decay_t<A>...> copies(args...);
      return run_host(names, inputs, variables, copies, std::index_sequence_for<A...>());
    };
  }

  // throws: kInvalidArgument if a tensor of an in-out argument was passed twice.
  template <class... X>
  void check_distinct(const Arguments& call, const internal::ArgumentNames& names,
                      X&... args) const {
    if constexpr ((internal::kIsInOut<A> || ...)) {
      std::vector<uint8_t> may_write;
      (internal::mark_tensors(may_write, count_tensors(args), internal::kIsInOut<A>), ...);
      internal::require_distinct(call, may_write, names);
    }
  }
  template <class X>
  std::size_t count_tensors(X& arg) const {
    Arguments own = new_arguments();
    internal::ArgumentFlattener<internal::NoNames>(own, {}).argument("", arg);
    return own.tensors.size();
  }

  template <class Tuple, std::size_t... I>
  internal::TraceResult run_host(const internal::ArgumentNames& names,
                                 std::span<const Tensor> inputs,
                                 std::span<const Variable> variables, Tuple& copies,
                                 std::index_sequence<I...>) const {
    Arguments before = new_arguments();
    collect(before, internal::NoNames(), std::get<I>(copies)...);
    const internal::TraceKey kept(before);
    for (std::size_t k = 0; k < inputs.size(); ++k) *before.tensors[k] = inputs[k];
    before.join_slices();
    for (std::size_t k = 0; k < variables.size(); ++k) *before.variables[k] = variables[k];
    internal::TraceResult out;
    if constexpr ((internal::kIsInOut<A> || ...)) {
      (internal::mark_tensors(out.in_out, count_tensors(std::get<I>(copies)),
                              internal::kIsInOut<A>),
       ...);
    }
    if constexpr (std::is_void_v<R>) {
      (*host_)(static_cast<A>(std::get<I>(copies))...);
    } else {
      auto result = std::make_shared<R>((*host_)(static_cast<A>(std::get<I>(copies))...));
      internal::require_values(name(), "the result", *result);
      if constexpr (HasLeaf<R, Tensor, Marked::kVisit>::value) {
        for_each_leaf<Tensor, Marked::kVisit>(*result, [&](Tensor& y) {
          if (y.has_value()) out.add_result(y);
        });
      }
      out.result = std::move(result);
    }
    if constexpr ((internal::kIsInOut<A> || ...)) {
      Arguments after = new_arguments();
      collect(after, internal::NoNames(), std::get<I>(copies)...);
      (add_outputs<A>(out, std::get<I>(copies)), ...);
      if (!internal::has_form(kept, after)) {
        if (!variables.empty()) {  // copies hold the placeholders of the Variables
          internal::throw_host_change(core_->name(), "the structure of arguments with Variables");
        }
        for (Tensor* x : after.tensors) {
          if (x->has_value()) *x = x->type()->abstract_tensor();
        }
        after.join_slices();
        out.fixes_sizes = after.rows != nullptr;
        out.arguments = std::make_shared<Tuple>(copies);
      } else if (const auto change = internal::find_change(kept, after, names); !change.empty()) {
        internal::throw_host_change(core_->name(), change);
      }
    }
    return out;
  }

  template <class As, class X>
  void add_outputs(internal::TraceResult& to, X& copy) const {
    if constexpr (internal::kIsInOut<As>) {
      Arguments own = new_arguments();
      internal::ArgumentFlattener<internal::NoNames>(own, {}).argument("", copy);
      for (const Tensor* x : own.tensors) {
        if (x->has_value()) to.outputs.push_back(*x);
      }
    }
  }

  // Assigns the first values of `out` to the tensors of the result. Returns the number of these
  // values.
  static std::size_t fill(auto& result, Values& out) {
    std::size_t next = 0;
    if constexpr (std::is_same_v<R, Tensor>) {
      if (result.has_value()) internal::put_result(result, out, next);
    } else if constexpr (HasLeaf<R, Tensor, Marked::kVisit>::value) {
      for_each_leaf<Tensor, Marked::kVisit>(result, [&](Tensor& y) {
        if (y.has_value()) internal::put_result(y, out, next);
      });
    }
    return next;
  }

  // Assigns the values from `next` on to the in-out arguments.
  template <class... X>
  void take_back(const internal::Trace& trace, const Arguments& call, Values& out, std::size_t next,
                 X&... args) const {
    if constexpr ((internal::kIsInOut<A> || ...)) {
      if (trace.arguments != nullptr) [[unlikely]] {
        take_form(*static_cast<const std::tuple<std::decay_t<A>...>*>(trace.arguments.get()), out,
                  next, std::index_sequence_for<A...>(), args...);
        return;
      }
      for (std::size_t k = 0; k < call.tensors.size(); ++k) {
        if (trace.in_out[k] == 0 || !call.tensors[k]->has_value()) continue;
        *call.tensors[k] = std::move(out[next++]);
      }
      call.join_slices(trace.in_out);
    }
  }

  // Replaces in-out arguments by copies that have the structure and the host values after the call.
  // Their tensors are the values from `next` on. All copies are complete before an argument
  // changes.
  template <class Tuple, std::size_t... I, class... X>
  void take_form(Tuple after, Values& out, std::size_t next, std::index_sequence<I...>,
                 X&... args) const {
    (take_anew<A>(out, next, std::get<I>(after)), ...);
    const auto take = [](auto as_in, auto& arg, auto& value) {
      if constexpr (decltype(as_in)::value) arg = std::move(value);
    };
    (take(std::bool_constant<internal::kIsInOut<A>>(), args, std::get<I>(after)), ...);
  }

  template <class As, class X>
  void take_anew(Values& out, std::size_t& next, X& arg) const {
    if constexpr (internal::kIsInOut<As>) {
      Arguments own = new_arguments();
      internal::ArgumentFlattener<internal::NoNames>(own, {}).argument("", arg);
      for (Tensor* x : own.tensors) {
        if (x->has_value()) *x = std::move(out[next++]);
      }
      own.join_slices();
    }
  }

  std::shared_ptr<internal::FunctionCore> core_;
  std::shared_ptr<const std::function<R(A...)>> host_;
};

// Makes a staged function with the parameters and the result of f. f is a lambda, a function, or a
// member function, which takes its object first. A generic lambda needs the signature:
// function<Tensor(const Tensor&)>(f).
template <class F>
auto function(F f, FunctionOptions options = {}, CallSite where = CallSite::here()) {
  if constexpr (!internal::kHasSignature<F>) {
    return internal::kRefused<internal::FunctionNeedsSignature<F>>;
  } else if constexpr (std::is_member_function_pointer_v<F>) {
    return Function<signature_of_t<F>>(std::mem_fn(f), std::move(options), where);
  } else {
    return Function<signature_of_t<F>>(std::move(f), std::move(options), where);
  }
}
template <class Signature, class F>
requires std::is_function_v<Signature>
auto function(F f, FunctionOptions options = {}, CallSite where = CallSite::here()) {
  return Function<Signature>(std::move(f), std::move(options), where);
}

}  // namespace etude
