// SPDX-License-Identifier: Apache-2.0
// Loaded functions and programs: the results of saved::load() (saved.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/base/call_site.h"
#include "etude/core/context/ambient.h"
#include "etude/core/tensor.h"
#include "etude/io/safetensors.h"
#include "etude/parts/parts.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace saved {

class Function;
class Program;
struct LoadOptions;
namespace internal {
struct Loaded;
struct Match;
struct PlainCall;
}  // namespace internal

// One input or result of a function: "image", "float32[n,28,28,1]".
struct Port {
  enum class Kind : uint8_t { kTensor, kVariable, kHost };
  std::string name;  // its path
  std::string type;  // of a host value its text: "true", "'relu'"
  Kind kind = Kind::kTensor;
};
// The arguments that one graph of a function serves.
struct GraphSignature {
  std::vector<Port> inputs;          // tensors, then Variables, then host values
  std::vector<Port> outputs;         // "output" for a lone tensor
  std::vector<std::string> changed;  // paths of arguments and state that a call changes
  Phase phase = Phase::kInference;
  // "(image: float32[n,28,28,1], training: true)".
  std::string to_string() const;
};
// An exported signature: names for servers. `input_paths` has the path of each input.
struct ExportedSignature {
  std::string function;
  std::vector<std::string> inputs, input_paths, outputs;
};

template <class Signature>
class TypedFunction;

// A loaded function: a value. Copies share graphs and state. threads: thread-safe.
class Function {
 public:
  const std::string& name() const;
  // The names of the parameters; empty if no graph was saved.
  const std::vector<std::string>& arguments() const;

  // Returns the result for these arguments: fields with the names of the parameters, or a list in
  // their order. A host number where the graph has a scalar tensor is converted, if its dtype can
  // represent the number.
  //
  // throws: kInvalidArgument if no graph was saved for such arguments, with all saved signatures,
  //   the nearest first; kFailedPrecondition for a function without a graph; the errors of the
  //   calls in the graph, at their lines when it was traced.
  Parts operator()(const Parts& arguments, CallSite where = CallSite::here()) const;
  // The same. Tensors of in-out parameters change in `arguments`.
  Parts call(Parts& arguments, CallSite where = CallSite::here()) const;
  // Calls with tensors by path, and returns the tensors of the result by path. If the function has
  // an exported signature, the signature has the names. Host parameters have the values of the
  // first graph that fits.
  io::NamedTensors call_named(const io::NamedTensors& inputs,
                              CallSite where = CallSite::here()) const;

  // The function with C++ types. Arguments are matched by position, results by the paths of their
  // parts. throws: kInvalidArgument for another number of parameters.
  template <class Signature>
  TypedFunction<Signature> as(CallSite where = CallSite::here()) const;

  // The Variables that its graphs use, in the order of the program.
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  std::vector<GraphSignature> signatures() const;
  // Each graph with its signature, size and the line that it was traced for.
  std::string explain() const;
  // The graphs, for printing.
  std::vector<GraphFunction> graphs() const;
  // The graph for inputs of these types, as call_named() takes them, with the present values of
  // state and of constants in it: for `etude compile`. It has no results that change state. throws:
  // as call_named().
  GraphRef closed_graph(const io::NamedTensors& inputs, CallSite where = CallSite::here()) const;

 private:
  friend class Program;
  friend class Entry;
  friend struct internal::PlainCall;
  template <class Signature>
  friend class TypedFunction;
  Function(std::shared_ptr<const internal::Loaded> program, std::size_t index);
  // Calls a graph from tensors to a tensor. False if there is none for these tensors.
  bool call_plain(std::span<const Tensor* const> arguments, Tensor& result, CallSite where) const;
  void require_parameters(std::size_t count, CallSite where) const;
  internal::Match match_named(io::NamedTensors& inputs, CallSite where) const;

  std::shared_ptr<const internal::Loaded> program_;
  std::size_t index_;
};

// A loaded program: a value. Its Variables live as long as a copy, or a function of it.
// threads: thread-safe.
class Program {
 public:
  // throws: kNotFound, with similar names.
  Function function(std::string_view name, CallSite where = CallSite::here()) const;
  std::vector<std::string> functions() const;
  // A Variable by a path of its object, "net/out/weight". throws: kNotFound, with similar paths.
  Variable variable(std::string_view path, CallSite where = CallSite::here()) const;
  // All Variables, by their first path.
  std::vector<std::pair<std::string, Variable>> variables() const;
  // An object that was saved, as Parts. throws: kNotFound, with similar names.
  Parts object(std::string_view name, CallSite where = CallSite::here()) const;
  std::vector<std::string> objects() const;
  std::vector<ExportedSignature> signatures() const;
  // The path of an asset in the folder that was loaded. throws: kNotFound.
  std::filesystem::path asset(std::string_view name, CallSite where = CallSite::here()) const;
  std::vector<std::string> assets() const;
  // Functions with their signatures, Variables, objects and assets: `etude inspect`.
  std::string to_string() const;

 private:
  friend class Entry;
  friend Program load(const std::string& folder, const LoadOptions& options, CallSite where);
  friend void save(const std::string& folder, const Program& program, CallSite where);
  explicit Program(std::shared_ptr<const internal::Loaded> loaded) : loaded_(std::move(loaded)) {}
  std::shared_ptr<const internal::Loaded> loaded_;
};

// Updates Variables by an optimiser, which steps tensors: fine-tuning of a loaded function. Pass
// the same Variables in each step, since the optimiser knows its parameters by their positions.
//
//   std::vector<Variable> weights = program.function("predict").trainable_variables();
//   optim::Adam adam({.lr = 1e-3});
//   saved::update(adam, weights, gradient(loss_of, weights));
//
// throws: the errors of optimizer.update(); then no Variable is changed.
template <class Optimizer>
void update(Optimizer& optimizer, const std::vector<Variable>& variables,
            const std::vector<Tensor>& gradients, CallSite where = CallSite::here()) {
  std::vector<Tensor> values;
  for (const Variable& v : variables) values.push_back(v.read(where));
  optimizer.update(values, gradients, where);
  for (std::size_t i = 0; i < variables.size(); ++i) variables[i].assign(Arg(values[i], where));
}

// threads: thread-safe.
template <class R, class... A>
class TypedFunction<R(A...)> {
  static_assert(std::is_void_v<R> || std::is_default_constructible_v<R>,
                "etude: saved::Function::as: the result has a default constructor");

 public:
  explicit TypedFunction(Function function) : function_(std::move(function)) {}

  // throws: as Function::operator(); kInvalidArgument, with the path, if R is another structure.
  R operator()(A... args, CallSite where = CallSite::here()) const {
    if constexpr (kIsPlain) {
      const Tensor* const all[] = {&static_cast<const Tensor&>(args)...};
      Tensor out;
      if (function_.call_plain(all, out, where)) return out;
    }
    const std::vector<std::string>& names = function_.arguments();
    std::vector<Named> fields;
    std::size_t i = 0;
    const auto add = [&](const auto& arg) {
      fields.emplace_back(i < names.size() ? names[i] : "arg" + std::to_string(i), parts_of(arg));
      ++i;
    };
    (add(args), ...);
    Parts all = Parts::fields(std::move(fields));
    const Parts result = function_.call(all, where);
    i = 0;
    (take_back<A>(args, all, names, i), ...);
    if constexpr (std::is_same_v<R, Tensor>) {
      return result.tensor("");
    } else if constexpr (!std::is_void_v<R>) {
      R out{};
      assign_parts(out, result);
      return out;
    }
  }

  const Function& function() const noexcept { return function_; }

 private:
  // Tensors to a tensor: needs no Parts.
  static constexpr bool kIsPlain = sizeof...(A) > 0 && std::is_same_v<R, Tensor> &&
                                   ((std::is_same_v<std::decay_t<A>, Tensor> &&
                                     !etude::internal::kIsInOut<A>)&&...);

  template <class As, class X>
  static void take_back(X& arg, const Parts& all, const std::vector<std::string>& names,
                        std::size_t& i) {
    if constexpr (etude::internal::kIsInOut<As>) {
      if (i < names.size()) assign_parts(arg, all.part(names[i]));
    }
    ++i;
  }

  Function function_;
};

template <class Signature>
TypedFunction<Signature> Function::as(CallSite where) const {
  []<class R, class... A>(R (*)(A...), const Function& self, CallSite at) {
    self.require_parameters(sizeof...(A), at);
  }(static_cast<Signature*>(nullptr), *this, where);
  return TypedFunction<Signature>(*this);
}

}  // namespace saved
}  // namespace etude
