// SPDX-License-Identifier: Apache-2.0
// A staged function of Python: the graphs of one callable, or of one method of one instance. Keys,
// graphs and runs belong to FunctionCore, as for functions of C++.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "etude/stage/function_core.h"
#include "python/src/bind.h"
#include "python/src/program/call_reader.h"

namespace etude::python {

// The facts that all instances of a method share.
struct StagedFacts {
  StagedFacts(nb::handle described, nb::handle empty) : parameters(described, empty) {}
  FunctionParameters parameters;
  FunctionOptions options;
  CallSite where;
  std::size_t specs = 0;  // parameters that a signature covers; 0: no signature
  bool converts = true;   // control flow is converted
};

// The structure of a result, as a trace keeps it.
struct ResultForm {
  const TreeDef* def = nullptr;
  std::vector<Tensor> places;  // for put_result(), by leaf; absent: no value
  // Donated optimisers whose state has another structure after the call. Their tensors are the last
  // outputs.
  struct Grown {
    std::size_t leaf = 0;          // their first leaf before the call
    const TreeDef* def = nullptr;  // after the call
    std::vector<uint8_t> has;      // by leaf after the call: whether it has a value
  };
  std::vector<Grown> grown;
  // New states of layers in arguments that are not donated. They are the outputs after those.
  struct NewState {
    std::size_t leaf = 0;    // of the arguments
    bool is_direct = false;  // whether the function calls the layer, outside of operators
    bool is_lost = false;    // in a branch or a loop, so that it is no output
    std::string layer;       // its kind
  };
  std::vector<NewState> states;
};

// The host function of a call. Borrowed.
struct HostFunction {
  PyObject* callable = nullptr;
  PyObject* self = nullptr;    // of a method; null: none
  bool is_self_bound = false;  // whether self takes no part in the key

  // The callable after the conversion of its control flow. Requires the GIL.
  nb::object converted(const StagedFacts& facts) const;
};

class Staged {
 public:
  explicit Staged(std::shared_ptr<const StagedFacts> facts);
  // With options of its own.
  Staged(std::shared_ptr<const StagedFacts> facts, FunctionOptions options);

  const StagedFacts& facts() const noexcept { return *facts_; }
  internal::FunctionCore& core() noexcept { return core_; }
  const std::string& name() const noexcept { return core_.name(); }

  // Calls it. A new reference. Requires the GIL, and releases it while graphs are made and run.
  nb::object call(const HostFunction& host, PyObject* const* args, std::size_t count,
                  PyObject* names);
  // The graph for arguments like these, made if there is none.
  internal::TraceRef trace(const HostFunction& host, PyObject* const* args, std::size_t count,
                           PyObject* names);
  // The graph for arguments of these types, whose sizes may be open; made if there is none. Calls
  // that it fits use it. `specs` has an entry for each tensor and each Variable of the arguments.
  internal::TraceRef trace_specified(const HostFunction& host, Signature specs,
                                     PyObject* const* args, std::size_t count, PyObject* names);
  // All graphs, first without, then with specs. Requires the GIL.
  std::vector<internal::TraceRef> traces();
  // A graph, and the Staged that traces calls of its kind: this one, or one with specs.
  struct Owned {
    Staged* staged;
    std::shared_ptr<Staged> held;  // null: this one
    internal::TraceRef trace;
  };
  std::vector<Owned> owned_traces();
  // The texts of explain() for graphs of trace_specified(). Requires the GIL.
  std::vector<std::string> explain_specified() const;
  // Runs one graph. throws: kInvalidArgument for arguments that it was not made for.
  nb::object call_graph(const internal::TraceRef& trace, const HostFunction& host,
                        PyObject* const* args, std::size_t count, PyObject* names);

 private:
  class Call;
  // Shared: another thread may drop it from the list while a call uses it.
  std::shared_ptr<const CallLayout> layout_for(const FunctionParameters::Bound& bound,
                                               std::size_t first, const CallReader& reader);

  std::shared_ptr<const StagedFacts> facts_;
  internal::FunctionCore core_;
  // Latest first; guarded by the GIL.
  std::vector<std::shared_ptr<const CallLayout>> layouts_;
  // A graph that was made from specs, and the Staged with these specs as its signature.
  struct Specified {
    std::string specs;
    std::shared_ptr<Staged> staged;
    internal::TraceRef trace;
  };
  std::vector<Specified> specified_;  // guarded by the GIL
  friend class Call;
};

// A staged function of Python, such as a method. Borrowed from its object.
struct StagedFunction {
  Staged* staged = nullptr;
  HostFunction host;
};
// None for other objects. Requires the GIL. Defined in function_type.cc.
std::optional<StagedFunction> staged_function(nb::handle function);

// The function of autograph.convert; none: control flow stays as it is.
void set_converter(nb::object convert);
// A callable after the conversion of its control flow.
nb::object converted(nb::handle callable);

}  // namespace etude::python
