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
// function before it is saved, or give it a signature: after loading it cannot be traced. Calls
// with two sizes of a batch make one graph for all sizes. Host arguments are fixed in a graph, and
// match by value.
//
// A loaded function runs in all modes, like a staged function: within staged functions, tapes,
// derivatives of any order, vmap and lazy scopes. Its state is Variables, which it shares with the
// other functions of the program. docs/saved_functions.md shows more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/io/checkpoint/trackable.h"
#include "etude/parts/parts.h"
#include "etude/saved/internal/given.h"
#include "etude/saved/program.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace saved {

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
  constexpr bool fits = internal::kBegins<std::tuple<std::decay_t<A>...>, std::tuple<B...>>;
  static_assert(fits, "etude: saved::bind: the objects have the types of the first parameters");
  if constexpr (fits) {
    return {internal::given_function(f, CallSite::here(), objects...)};
  } else {
    return {};
  }
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
// tensors, which are loaded as Parts, and Trackables, whose Variables are saved if a function uses
// them. The name of an object to which functions are bound is the name of its state.
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
  requires(!std::is_same_v<T, Function> && !std::is_same_v<T, Program> && !std::is_same_v<T, Bound>)
      Entry(std::string name, const T& object)
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
//   the user's line; kInvalidArgument for a name that is empty, has a '/' or is given twice, and
//   for an exported signature whose results are not tensors; for files: the errors of AtomicFile.
// cost: reads weights twice, for the checksum and to write them; no copy of a tensor.
void save(const std::string& folder, const std::vector<Entry>& entries,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
// Writes a loaded program again, with the present values of its Variables. If these did not change,
// all files have the same bytes.
void save(const std::string& folder, const Program& program, CallSite where = CallSite::here());

struct LoadOptions {
  // The number of steps that loops of saved functions may run. A while_loop without a limit, or
  // with a higher limit, is refused when it is loaded. 0: no limit. For folders from strangers.
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

}  // namespace saved
}  // namespace etude
