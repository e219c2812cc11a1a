// SPDX-License-Identifier: Apache-2.0
// Saved functions: staged functions with their graphs and their state, in a folder. A process that
// loads the folder needs neither the source of the functions nor the structs of their models.
//
//   saved::save("lenet", {{"predict", saved::bind(predict, model)},
//                         {"train", saved::bind(step, model, optimizer)}});
//
//   const saved::Program program = saved::load("lenet");
//   const auto predict = program.function("predict").as<Tensor(const Tensor&)>();
//   Tensor scores = predict(images);  // of any batch size that the graph serves
//
// The graphs that a function has are saved, each with the arguments that it was made for. Call the
// function before it is saved, or give it a signature: after loading it cannot be traced. Calls with
// two sizes of a batch make one graph for all sizes. Host arguments are fixed in a graph, and match
// by value.
//
// A loaded function runs in all modes, like a staged function: within staged functions, tapes,
// derivatives of any order, vmap and lazy scopes. Its state is Variables, which it shares with the
// other functions of the program. docs/saved_functions.md shows more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/io/checkpoint/trackable.h"
#include "etude/io/safetensors.h"
#include "etude/parts/parts.h"
#include "etude/saved/internal/given.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace saved {

class Function;
class Program;
namespace internal {
struct Loaded;
}  // namespace internal

// A function whose first arguments are bound to objects. Made by bind().
struct Bound {
  internal::GivenFunction function;
};
// Binds the first parameters of f to these objects, whose tensors become state of the saved
// function: Variables with the paths of the tensors, "model/fc1/weight". An in-out parameter
// changes its state at each call, as it changes the object now. Functions that are bound to the
// same object share its state. Objects are read when bind() is called.
template <class R, class... A, class... B>
Bound bind(const etude::Function<R(A...)>& f, const B&... objects) {
  static_assert(sizeof...(B) <= sizeof...(A), "etude: saved::bind: more objects than parameters");
  static_assert(
      []<class... All>(std::tuple<All...>*) {
        return []<std::size_t... I>(std::index_sequence<I...>) {
          return (
              std::is_same_v<std::tuple_element_t<I, std::tuple<All...>>, std::tuple_element_t<I, std::tuple<B...>>> &&
              ...);
        }(std::index_sequence_for<B...>());
      }(static_cast<std::tuple<std::decay_t<A>...>*>(nullptr)),
      "etude: saved::bind: an object has another type than its parameter");
  return {internal::given_function(f, CallSite::here(), objects...)};
}

struct SaveOptions {
  // Saves the derivatives of custom_gradient() and the like. Without them a loaded function refuses
  // gradients that pass through such a call. Derivatives of recompute_grad() are always saved.
  bool custom_gradients = false;
  // The functions that get an exported signature: inputs by name, and results that are tensors with
  // names. Servers and `etude run` call these. Program::signatures() lists them.
  std::vector<std::string> signatures = {};
  // Files that the functions need, such as a vocabulary. They are copied, and are found by their
  // file names: Program::asset().
  std::vector<std::filesystem::path> assets = {};
  // The maximum size of a file of tensors; a single tensor may exceed it.
  int64_t shard_bytes = int64_t{2} << 30;

  static constexpr void ranges(const auto& option) {
    option("shard_bytes", &SaveOptions::shard_bytes, at_least(1));
  }
};

// A function or an object, and its name. Objects are Variables, structures of Variables and
// tensors, and Trackables: functions may use their Variables, and structures are loaded as Parts. A
// name of an object to which functions are bound is the name of its state.
class Entry {
 public:
  template <class R, class... A>
  Entry(std::string name, const etude::Function<R(A...)>& f)
      : name_(std::move(name)), function_(internal::given_function(f, CallSite::here())) {}
  Entry(std::string name, Bound bound)
      : name_(std::move(name)), function_(std::move(bound.function)) {}
  // A loaded function, with its state.
  Entry(std::string name, const Function& f);
  // All functions, objects and assets of a loaded program, below this name: "base/predict".
  Entry(std::string name, const Program& program);
  template <class T>
  requires(!std::is_same_v<T, Function> && !std::is_same_v<T, Program> &&
           !std::is_same_v<T, Bound>) Entry(std::string name, const T& object)
      : name_(std::move(name)), object_(of_object(object)) {}

  const std::string& name() const noexcept { return name_; }
  const std::optional<internal::GivenFunction>& function() const noexcept { return function_; }
  const std::optional<internal::GivenObject>& object() const noexcept { return object_; }
  const std::shared_ptr<const internal::Loaded>& loaded() const noexcept { return loaded_; }
  // The index of the one loaded function; -1: all.
  int64_t loaded_function() const noexcept { return loaded_function_; }

 private:
  template <class T>
  static internal::GivenObject of_object(const T& object) {
    internal::GivenObject out{.at = &object, .type = typeid(T)};
    if constexpr (std::is_same_v<T, Variable>) {
      out.parts = Parts(object);
    } else if constexpr (std::is_base_of_v<io::Trackable, T>) {
      out.cells = cells_of(object);
    } else if constexpr (requires {
                           typename T::element_type;
                           *object;
                         }) {
      return of_object(*object);
    } else {
      out.parts = parts_of(object);
    }
    return out;
  }
  static std::vector<std::pair<std::string, const void*>> cells_of(const io::Trackable& object);

  std::string name_;
  std::optional<internal::GivenFunction> function_;
  std::optional<internal::GivenObject> object_;
  std::shared_ptr<const internal::Loaded> loaded_;
  int64_t loaded_function_ = -1;
};

// Writes the functions and their state to `folder`. The folder appears whole: a save that is killed
// leaves the functions that were saved there before. Two savers take turns.
//
// throws: kFailedPrecondition for a Variable that no entry reaches, and for a function without a
//   graph for its bound objects; kUnimplemented for content that exists only in this process, with
//   the user's line; kInvalidArgument for a name that is empty, has a '/' or is given twice, and for
//   an exported signature whose results are not tensors; for files: the errors of AtomicFile.
// cost: reads weights twice, for the checksum and to write them; no copy of a tensor.
void save(const std::string& folder, const std::vector<Entry>& entries,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
// Writes a loaded program again, with the present values of its Variables. If these did not change,
// all files have the same bytes.
void save(const std::string& folder, const Program& program, CallSite where = CallSite::here());

struct LoadOptions {
  // Loops of saved functions may run so many steps: a while_loop without a limit, or with a higher
  // one, is refused when it is loaded. 0: no limit. For folders from strangers.
  int64_t max_loop_steps = 0;

  static constexpr void ranges(const auto& option) {
    option("max_loop_steps", &LoadOptions::max_loop_steps, at_least(0));
  }
};

// Reads a folder that save() wrote. Files are not trusted: a folder can compute anything that ops
// can compute, but reads no other file, and takes no more memory than read_limits() allow.
//
// throws: kNotFound if there is no saved function; kDataLoss, with file and offset, for a damaged
//   folder; kUnimplemented for a newer version of the format or of an op, and for an unknown op;
//   kResourceExhausted beyond read_limits() or `max_loop_steps`.
Program load(const std::string& folder, const LoadOptions& options = {},
             CallSite where = CallSite::here());
// Whether the folder holds saved functions.
bool is_saved(const std::string& folder);

// One input or result of a function, for display: "image", "float32[n,28,28,1]".
struct Port {
  std::string name;
  std::string type;
};
// The arguments that one graph of a function serves.
struct GraphSignature {
  std::vector<Port> inputs;   // tensors and Variables by path; host values have their text as type
  std::vector<Port> outputs;  // by path in the result; "output" for a lone tensor
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
  //   the nearest first; kFailedPrecondition for a function without a graph; the errors of the calls
  //   in the graph, at their lines when it was traced.
  Parts operator()(const Parts& arguments, CallSite where = CallSite::here()) const;
  // The same. The tensors of in-out parameters are changed in `arguments`.
  Parts call(Parts& arguments, CallSite where = CallSite::here()) const;
  // Calls with tensors by their paths, and returns the tensors of the result by theirs. With an
  // exported signature the names are those of the signature. Host parameters have the values of the
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
  // The graphs, with the values of state and captures: for printing, closed_graph() and
  // `etude compile`.
  std::vector<GraphFunction> graphs() const;

 private:
  friend class Program;
  friend class Entry;
  template <class Signature>
  friend class TypedFunction;
  Function(std::shared_ptr<const internal::Loaded> program, std::size_t index);
  void require_parameters(std::size_t count, CallSite where) const;

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

// threads: thread-safe.
template <class R, class... A>
class TypedFunction<R(A...)> {
  static_assert(std::is_void_v<R> || std::is_default_constructible_v<R>,
                "etude: saved::Function::as: the result has a default constructor");

 public:
  explicit TypedFunction(Function function) : function_(std::move(function)) {}

  // throws: as Function::operator(); kInvalidArgument, with the path, if R is another structure.
  R operator()(A... args, CallSite where = CallSite::here()) const {
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
