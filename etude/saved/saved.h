// SPDX-License-Identifier: Apache-2.0
// Saved functions: staged functions in a folder, with their graphs and their state. A process that
// loads the folder needs neither the source of the functions nor the structs of their models.
//
//   saved::save("lenet", {{"predict", saved::bind(predict, model)},
//                         {"train", saved::bind(step, model, optimizer)}});
//
//   const saved::Program program = saved::load("lenet");
//   const auto predict = program.function("predict").as<Tensor(const Tensor&)>();
//   Tensor scores = predict(images);  // of any batch size that the graph serves
//
// save() stores the graphs that a function has, each with the arguments of its trace. So call the
// function before save(), or give it a signature: a loaded function cannot be traced. Calls with
// two batch sizes make one graph for all sizes. Host arguments are fixed in a graph, and match by
// value.
//
// A loaded function runs in all modes, like a staged function: in staged functions, tapes,
// derivatives of any order, vmap and lazy scopes. Its state consists of Variables. All functions of
// the program share these Variables. docs/saved_functions.md shows more.
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
// Binds the first parameters of f to `objects`. The tensors of the objects become state of the
// saved function: Variables with the paths of the tensors, such as "model/fc1/weight". A call of
// the saved function changes the state of an in-out parameter, as a call of f changes the object.
// Functions that are bound to the same object share its state. bind() reads the objects at once.
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
  // Whether to save the derivatives of custom_gradient() and similar functions. A loaded function
  // without them refuses gradients through such a call. Derivatives of recompute_grad() are always
  // saved.
  bool custom_gradients = false;
  // The functions that get an exported signature: names for their inputs and their results. All
  // results must be tensors. Servers and `etude run` call these functions. Program::signatures()
  // lists them.
  std::vector<std::string> signatures = {};
  // Files that the functions need, such as a vocabulary. save() copies these files.
  // Program::asset() finds a copy by the name of the file.
  std::vector<std::filesystem::path> assets = {};
  // The maximum size of a file of tensors. A larger tensor has a file of its own.
  int64_t shard_bytes = int64_t{2} << 30;

  static constexpr void ranges(const auto& option) {
    option("shard_bytes", &SaveOptions::shard_bytes, at_least(1));
  }
};

// A named function or a named object. An object is a Variable, a structure of Variables and
// tensors, or a Trackable. A structure is loaded as Parts. The Variables of a Trackable are saved
// if a function uses them. If functions are bound to an object, the name of the object is the name
// of its state.
class Entry {
 public:
  template <class R, class... A>
  Entry(std::string name, const etude::Function<R(A...)>& f)
      : name_(std::move(name)), function_(internal::given_function(f, CallSite::here())) {}
  Entry(std::string name, Bound bound)
      : name_(std::move(name)), function_(std::move(bound.function)) {}
  // A loaded function, with its state.
  Entry(std::string name, const Function& f);
  // All functions, objects and assets of a loaded program, with names such as "base/predict".
  Entry(std::string name, const Program& program);
  template <class T>
  requires(!std::is_same_v<T, Function> && !std::is_same_v<T, Program> && !std::is_same_v<T, Bound>)
      Entry(std::string name, const T& object)
      : name_(std::move(name)), object_(of_object(object)) {}

  const std::string& name() const noexcept { return name_; }
  const std::optional<internal::GivenFunction>& function() const noexcept { return function_; }
  const std::optional<internal::GivenObject>& object() const noexcept { return object_; }
  const std::shared_ptr<const internal::Loaded>& loaded() const noexcept { return loaded_; }
  // The index of a single loaded function; -1 for all functions.
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

// Writes the functions and their state to `folder`. The change happens in a single step. So if a
// save is killed, the functions that were saved there before remain. Two savers take turns.
//
// throws: kFailedPrecondition for a Variable that no entry reaches, and for a function without a
//   graph for its bound objects; kUnimplemented, with the user's line, for content that exists only
//   in this process; kInvalidArgument for a name that is empty, has a '/' or is given twice, and
//   for an exported signature whose results are not tensors; the errors of AtomicFile.
// cost: reads all tensors twice, once for the checksum and once to write them; copies no tensor.
void save(const std::string& folder, const std::vector<Entry>& entries,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
// Writes a loaded program again, with the present values of its Variables. If no value has changed,
// all files have the same bytes.
void save(const std::string& folder, const Program& program, CallSite where = CallSite::here());

struct LoadOptions {
  // The maximum number of steps of a while_loop in a saved function. load() refuses a while_loop
  // with a higher limit or no limit. 0: no check. For folders from untrusted sources.
  int64_t max_loop_steps = 0;

  static constexpr void ranges(const auto& option) {
    option("max_loop_steps", &LoadOptions::max_loop_steps, at_least(0));
  }
};

// Reads a folder that save() wrote. Files are not trusted. A folder can compute everything that ops
// can compute. But it reads no other file, and takes no more memory than read_limits() allow.
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
