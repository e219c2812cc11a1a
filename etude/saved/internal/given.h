// SPDX-License-Identifier: Apache-2.0
// The functions and objects that a program passes to saved::save(), without their C++ types. Made
// by the templates of saved.h, read by gather.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/base/structure.h"
#include "etude/base/warning.h"
#include "etude/core/context/ambient.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/io/internal/trackee.h"
#include "etude/parts/parts.h"
#include "etude/saved/internal/parameter_names.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace saved::internal {

using etude::internal::Arguments;
using etude::internal::TraceRef;

// The trace of a graph of a function.
class OpenedGraph : public GraphFunction {
 public:
  explicit OpenedGraph(const GraphFunction& graph) : GraphFunction(graph) {}
  const TraceRef& trace() const noexcept { return trace_; }
};

// Whether the types of the tuple `Head` begin the types of the tuple `All`.
template <class All, class Head>
inline constexpr bool kBegins = false;
template <class... T>
inline constexpr bool kBegins<std::tuple<T...>, std::tuple<>> = true;
template <class T, class... All, class... Head>
inline constexpr bool kBegins<std::tuple<T, All...>, std::tuple<T, Head...>> =
    kBegins<std::tuple<All...>, std::tuple<Head...>>;

// One graph of a function, or one for many sizes.
struct GivenTrace {
  TraceRef trace;
  SymbolicGraphRef symbolic;  // null: for the sizes of the trace alone
  Parts result;               // its tensors have no elements
  bool is_special = false;    // for sizes of 1 and 0, which a graph for many sizes does not serve
  bool fits = true;           // was made for the present state of the bound objects
};

// Returns the name of an entry for a function of this name. The name of an entry has no '/'.
std::string entry_name(const std::string& name);

// An argument that the caller passes after loading too.
struct GivenArgument {
  std::string name;
  bool is_variable = false;
};

// An argument that becomes state.
struct BoundObject {
  const void* at = nullptr;  // its identity, with its type
  std::type_index type = typeid(void);
  std::string name = {};                 // of the parameter
  std::vector<Tensor> tensors = {};      // its current value, flattened
  std::vector<uint8_t> is_trained = {};  // by tensor
};

struct GivenFunction {
  std::string display;  // its own name, for messages
  bool has_signature = false;
  std::vector<GivenTrace> traces = {};
  std::vector<BoundObject> bound = {};
  std::vector<Variable> bound_variables = {};      // of all bound objects
  std::size_t bound_words = 0, bound_objects = 0;  // flattened host values of all bound objects
  std::vector<GivenArgument> arguments = {};
};

// An object that keeps Variables reachable, and is saved with its values.
struct GivenObject {
  const void* at = nullptr;
  std::type_index type = typeid(void);
  std::optional<Parts> parts = {};  // null: a Trackable
  // Of a Trackable: the paths of its Variables, by the identity of their cells.
  std::vector<std::pair<std::string, const void*>> cells = {};
};

// The current value of an argument that becomes state. `to` collects the leaves of all.
template <class T>
BoundObject bound_object(const T& object, Arguments& to) {
  BoundObject out{.at = &object, .type = typeid(T)};
  const std::size_t first = to.tensors.size();
  etude::internal::ArgumentFlattener<etude::internal::NoNames>(to, {}).argument("", object);
  // Tensors of constants and of layer state have no derivative, and optimisers are not trained.
  std::vector<const void*> moving;
  if constexpr (HasLeaf<T, Tensor, Marked::kSkip>::value && !io::internal::HasState<T>) {
    for_each_leaf<Tensor, Marked::kSkip>(object, [&](const Tensor& x) { moving.push_back(&x); });
  }
  for (std::size_t i = first; i < to.tensors.size(); ++i) {
    const Tensor* x = to.tensors[i];
    out.tensors.push_back(*x);
    out.is_trained.push_back(std::find(moving.begin(), moving.end(), x) != moving.end() ? 1 : 0);
  }
  return out;
}
// Whether the trace was made for bound objects of these types and host values.
bool fits_bound(const etude::internal::Trace& trace, const Arguments& bound);

template <class R>
Parts result_of(const etude::internal::Trace& trace) {
  if constexpr (std::is_void_v<R>) {
    return Parts();
  } else {
    return parts_of(*static_cast<const R*>(trace.result.get()));
  }
}

// Whether f has a signature. Makes its graph if there is none.
template <class F>
bool trace_by_signature(const F& f, CallSite where) {
  if constexpr (requires { f.trace(where); }) {
    try {
      static_cast<void>(f.trace(where));
      return true;
    } catch (const Error& error) {
      FunctionOptions none{.name = f.name()};
      try {
        etude::internal::require_has_signature(none, where);
      } catch (const Error& wanted) {
        if (std::string_view(wanted.what()) == error.what()) return false;
      }
      throw;
    }
  } else {
    return false;
  }
}

// A call with tensors of other sizes, but the same host values as a trace: copies of the bound
// arguments, zeros for tensors, and numbers of the trace. False if they cannot be made.
class SizedCall {
 public:
  SizedCall(const etude::internal::Trace& trace, std::span<const Type* const> types,
            std::size_t tensor, std::size_t word)
      : trace_(trace), types_(types), tensor_(tensor), word_(word) {}

  template <class T>
  bool make(std::optional<T>& out) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      constexpr std::size_t kWords = sizeof(T) > 8 ? 2 : 1;
      if (word_ + kWords > trace_.key.words.size()) return false;
      T value{};
      std::memcpy(&value, &trace_.key.words[word_], std::min(sizeof(T), kWords * 8));
      out = value;
      word_ += kWords;
      return true;
    } else if constexpr (std::is_default_constructible_v<T> && !std::is_same_v<T, Variable>) {
      out.emplace();
      Arguments flat;
      etude::internal::ArgumentFlattener<etude::internal::NoNames>(flat, {}).argument("", *out);
      return fill(flat);
    } else {
      return false;
    }
  }

 private:
  // Whether the host values are as in the trace. Sets the tensors.
  bool fill(const Arguments& flat);

  const etude::internal::Trace& trace_;
  std::span<const Type* const> types_;  // by tensor of the call
  std::size_t tensor_, word_;
};

// The types of the tensors of a call in which the sizes of these numbers are 1 or 0, and the others
// are as in graph `point` of the symbolic graph.
struct SpecialSizes {
  std::vector<std::vector<const Type*>> calls;  // two or more calls form a symbolic graph
};
std::vector<SpecialSizes> special_sizes(const GivenTrace& given);
// Adds the graph of these traces. Does nothing if they form no symbolic graph.
void add_special(GivenFunction& to, const std::vector<TraceRef>& traces,
                 const std::vector<Parts>& results);

// While alive, this thread does not warn that a function is traced often: saving traces it on
// purpose. threads: confined to its thread.
class QuietTraces {
 public:
  QuietTraces();
  QuietTraces(const QuietTraces&) = delete;
  QuietTraces& operator=(const QuietTraces&) = delete;
  ~QuietTraces();

 private:
  std::shared_ptr<WarningHandler> before_;
};

// While alive, this thread has the phase, the default dtype and the promotion of a trace, so that a
// further trace serves the same calls. threads: confined to its thread.
class AsTraced {
 public:
  explicit AsTraced(const etude::internal::TraceKey& key)
      : phase_(key.phase),
        dtype_(std::exchange(ambient().default_dtype, key.default_dtype)),
        promotion_(std::exchange(ambient().promotion, key.promotion)) {}
  AsTraced(const AsTraced&) = delete;
  AsTraced& operator=(const AsTraced&) = delete;
  ~AsTraced() {
    ambient().default_dtype = dtype_;
    ambient().promotion = promotion_;
  }

 private:
  const PhaseScope phase_;
  const DType dtype_;
  const Promotion promotion_;
};

template <class R, class... A, std::size_t... I, class... B>
void trace_special_sizes(const etude::Function<R(A...)>& f, const GivenTrace& given,
                         GivenFunction& to, const std::tuple<const B*...>& bound,
                         std::index_sequence<I...>) {
  std::size_t tensors = 0;
  for (const BoundObject& object : to.bound) tensors += object.tensors.size();
  const QuietTraces quiet;
  const AsTraced state(given.trace->key);
  for (const SpecialSizes& sizes : special_sizes(given)) {
    std::vector<TraceRef> traces;
    std::vector<Parts> results;
    for (const std::vector<const Type*>& types : sizes.calls) {
      SizedCall call(*given.trace, types, tensors, to.bound_words);
      std::tuple<std::optional<std::decay_t<A>>...> copies;
      [[maybe_unused]] const auto make = [&](auto index, auto& copy) {
        if constexpr (decltype(index)::value < sizeof...(B)) {
          copy.emplace(*std::get<decltype(index)::value>(bound));
          return true;
        } else {
          return call.make(copy);
        }
      };
      if (!(make(std::integral_constant<std::size_t, I>(), std::get<I>(copies)) && ...)) return;
      try {
        const TraceRef trace = OpenedGraph(f.trace(*std::get<I>(copies)...)).trace();
        results.push_back(result_of<R>(*trace));
        traces.push_back(trace);
      } catch (const std::exception&) {
        break;  // the function is not for these sizes
      }
    }
    if (traces.size() == sizes.calls.size()) add_special(to, traces, results);
  }
}

// The graphs of f, with `bound` as its first arguments.
template <class R, class... A, class... B>
GivenFunction given_function(const etude::Function<R(A...)>& f, CallSite where, const B&... bound) {
  GivenFunction out{.display = f.name()};
  Arguments flat;
  flat.splits_slices = true;
  (out.bound.push_back(bound_object(bound, flat)), ...);
  for (const Variable* v : flat.variables) out.bound_variables.push_back(*v);
  out.bound_words = flat.words.size();
  out.bound_objects = flat.objects.size();
  if (f.trace_count() == 0) out.has_signature = trace_by_signature(f, where);
  bool is_named = false;
  for (const auto& graph : f.traces()) {
    const TraceRef trace = OpenedGraph(graph).trace();
    out.traces.push_back(
        {trace, trace->symbolic, result_of<R>(*trace), false, fits_bound(*trace, flat)});
    if (std::exchange(is_named, true)) continue;
    ArgumentCursor cursor(trace->names);
    std::size_t i = 0;
    [[maybe_unused]] const auto name = [&](First first, bool is_variable) {
      std::string text = cursor.next(first);
      if (i < out.bound.size()) {
        out.bound[i].name = std::move(text);
      } else {
        out.arguments.push_back({std::move(text), is_variable});
      }
      ++i;
    };
    (name(first_leaf<std::decay_t<A>>(), std::is_same_v<std::decay_t<A>, Variable>), ...);
  }
  const std::vector<GivenTrace> traced = out.traces;
  for (const GivenTrace& given : traced) {
    if (given.symbolic && given.fits) {
      trace_special_sizes(f, given, out, std::tuple<const B*...>(&bound...),
                          std::index_sequence_for<A...>());
    }
  }
  return out;
}

}  // namespace saved::internal
}  // namespace etude
