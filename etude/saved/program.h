// SPDX-License-Identifier: Apache-2.0
// Loaded functions and programs: the results of saved::load() (saved.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/base/call_site.h"
#include "etude/core/context/ambient.h"
#include "etude/core/dtype.h"
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
struct ProgramAccess;
// Assigns all Variables, or none.
void assign_all(const std::vector<Variable>& variables, const std::vector<Tensor>& values,
                CallSite where);
}  // namespace internal

// A size of a tensor. An open size has a name, "n". Axes whose open sizes share a name are equal.
struct PortSize {
  int64_t number = -1;    // -1: open
  std::string name = {};  // empty for a number
  bool is_open() const { return number < 0; }
  bool operator==(const PortSize&) const = default;
};
// One input or result of a function: "image", "float32[n,28,28,1]".
struct Port {
  enum class Kind : uint8_t { kTensor, kVariable, kHost };
  std::string name;  // the path of the input or result
  std::string type;  // for a host value its text: "true", "'relu'"
  Kind kind = Kind::kTensor;
  // The type as data. Empty without a tensor: for host values, Variables and absent tensors.
  std::optional<DType> dtype = {};
  // Empty too for a result of a graph for all sizes. `type` has formulas that the seen sizes agree
  // with; a call at other sizes may have other sizes.
  std::optional<std::vector<PortSize>> sizes = {};
};
// The arguments that one graph of a function serves.
struct GraphSignature {
  std::vector<Port> inputs;          // tensors, then Variables, then host values
  std::vector<Port> outputs;         // the name of a lone tensor is "output"
  std::vector<std::string> changed;  // paths of arguments and of state that a call changes
  Phase phase = Phase::kInference;
  // "(image: float32[n,28,28,1], training: true)".
  std::string to_string() const;
};
// An exported signature, with names for servers. input_paths[i] is the path of inputs[i].
struct ExportedSignature {
  std::string function;
  std::vector<std::string> inputs, input_paths, outputs;
};

template <class Signature>
class TypedFunction;

// A loaded function. A value: copies share graphs and state. threads: thread-safe.
class Function {
 public:
  const std::string& name() const;
  // The names of the parameters; empty if no graph was saved.
  const std::vector<std::string>& arguments() const;

  // Returns the result for `arguments`, which are fields with the names of the parameters, or a
  // list in their order. If the graph has a scalar tensor in the place of a host number, the number
  // is converted to the dtype of this tensor. An integer dtype takes whole
  // numbers of its range, up to 2^53. A floating dtype rounds a number, but must represent a whole
  // number up to 2^24 exactly. A bool needs kBool.
  //
  // throws: kInvalidArgument if no graph was saved for such arguments, with all saved signatures,
  //   the nearest first; kFailedPrecondition for a function without a graph; the errors of the
  //   calls in the graph, at the lines where they were traced.
  Parts operator()(const Parts& arguments, CallSite where = CallSite::here()) const;
  // The same, but also changes the tensors of in-out parameters in `arguments`.
  Parts call(Parts& arguments, CallSite where = CallSite::here()) const;
  // Calls the function with tensors by path, and returns the tensors of the result by path. The
  // names of an exported signature replace the paths. Host parameters have the values of the first
  // graph that fits.
  io::NamedTensors call_named(const io::NamedTensors& inputs,
                              CallSite where = CallSite::here()) const;

  // Returns the function with C++ types. Arguments are matched by position, and results by the
  // paths of their parts. throws: kInvalidArgument for another number of parameters.
  template <class Signature>
  TypedFunction<Signature> as(CallSite where = CallSite::here()) const;

  // The Variables that the graphs of this function use, in the order of Program::variables().
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  std::vector<GraphSignature> signatures() const;
  // Describes each graph: its signature, its size and the line of the call that was traced.
  std::string explain() const;
  // The graphs, for printing.
  std::vector<GraphFunction> graphs() const;
  // Returns the graph for inputs of these types, with the present values of state and constants in
  // it. The inputs have the names that call_named() takes. The graph returns no changes of state.
  // For `etude compile`. throws: as call_named().
  GraphRef closed_graph(const io::NamedTensors& inputs, CallSite where = CallSite::here()) const;

 private:
  friend class Program;
  friend class Entry;
  friend struct internal::PlainCall;
  template <class Signature>
  friend class TypedFunction;
  Function(std::shared_ptr<const internal::Loaded> program, std::size_t index);
  // Calls a graph from tensors to a tensor. Returns false if no graph serves these tensors.
  bool call_plain(std::span<const Tensor* const> arguments, Tensor& result, CallSite where) const;
  void require_parameters(std::size_t count, CallSite where) const;
  internal::Match match_named(io::NamedTensors& inputs, CallSite where) const;

  std::shared_ptr<const internal::Loaded> program_;
  std::size_t index_;
};

// A loaded program. A value. Its Variables live as long as any copy of it or any of its functions.
// threads: thread-safe.
class Program {
 public:
  // throws: kNotFound, with similar names.
  Function function(std::string_view name, CallSite where = CallSite::here()) const;
  std::vector<std::string> functions() const;
  // The Variable with a path, such as "net/out/weight". throws: kNotFound, with similar paths.
  Variable variable(std::string_view path, CallSite where = CallSite::here()) const;
  // All Variables, each with the first of its paths.
  std::vector<std::pair<std::string, Variable>> variables() const;
  // A saved object, as Parts. throws: kNotFound, with similar names.
  Parts object(std::string_view name, CallSite where = CallSite::here()) const;
  std::vector<std::string> objects() const;
  std::vector<ExportedSignature> signatures() const;
  // The path of an asset in the folder that was loaded. throws: kNotFound.
  std::filesystem::path asset(std::string_view name, CallSite where = CallSite::here()) const;
  std::vector<std::string> assets() const;
  // A text with the functions and their signatures, the Variables, the objects and the assets. For
  // `etude inspect`.
  std::string to_string() const;

 private:
  friend class Entry;
  friend struct internal::ProgramAccess;
  friend Program load(const std::string& folder, const LoadOptions& options, CallSite where);
  friend void save(const std::string& folder, const Program& program, CallSite where);
  explicit Program(std::shared_ptr<const internal::Loaded> loaded) : loaded_(std::move(loaded)) {}
  std::shared_ptr<const internal::Loaded> loaded_;
};

// Steps Variables by an optimiser, for fine-tuning of a loaded function. Optimisers step tensors:
// this function reads the Variables, steps the values and assigns the results. Pass the same
// Variables in each step, because the optimiser knows its parameters by position.
//
//   std::vector<Variable> weights = program.function("predict").trainable_variables();
//   optim::Adam adam({.lr = 1e-3});
//   saved::update(adam, weights, gradient(loss_of, weights));
//
// throws: the errors of optimizer.update(). No Variable is then changed. If memory ends after the
//   update, no Variable is changed either, but the optimiser has counted the step.
template <class Optimizer>
void update(Optimizer& optimizer, const std::vector<Variable>& variables,
            const std::vector<Tensor>& gradients, CallSite where = CallSite::here()) {
  std::vector<Tensor> values;
  for (const Variable& v : variables) values.push_back(v.read(where));
  optimizer.update(values, gradients, where);
  internal::assign_all(variables, values, where);
}

// threads: thread-safe.
template <class R, class... A>
class TypedFunction<R(A...)> {
  static_assert(std::is_void_v<R> || std::is_default_constructible_v<R>,
                "etude: saved::Function::as: the result has a default constructor");

 public:
  explicit TypedFunction(Function function) : function_(std::move(function)) {}

  // throws: as Function::operator(); kInvalidArgument, with the path, if R has another structure
  //   than the result.
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
  // Whether arguments and result are single Tensors, none of them in-out. Such a call needs no
  // Parts.
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
