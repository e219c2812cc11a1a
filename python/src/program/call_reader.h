// SPDX-License-Identifier: Apache-2.0
// The arguments of a call of a staged function: bound to parameters, then read into leaves and
// tokens. A repeated call finds the order of its leaves by its tokens, and builds no containers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/base/internal/inline_vector.h"
#include "etude/stage/internal/arguments.h"
#include "python/src/bind.h"
#include "python/src/program/host_value.h"
#include "python/src/program/tree.h"

namespace etude::python {

// The parameters of a Python function, in the order of inspect.signature().
struct FunctionParameter {
  PyObject* name = nullptr;  // interned
  std::string text;
  PyObject* otherwise = nullptr;  // the default; null: none
  enum class Kind : uint8_t { kPositional, kAny, kArgs, kKeyword, kKwargs } kind = Kind::kAny;
  bool is_donated = false;
  std::optional<DType> dtype;  // of its TensorSpec: host data is converted to it
};

class FunctionParameters {
 public:
  // `described`: tuples (name, kind, default or the marker `empty`).
  FunctionParameters(nb::handle described, nb::handle empty);
  FunctionParameters(const FunctionParameters&) = delete;
  FunctionParameters& operator=(const FunctionParameters&) = delete;
  ~FunctionParameters();

  std::vector<FunctionParameter> all;
  // By its name; null if there is none.
  FunctionParameter* find(std::string_view name);

  // One value for each parameter, borrowed from the call or from `holds`.
  struct Bound {
    internal::InlineVector<PyObject*, 64>
        values;  // null: the arguments of `rest`, of a parameter *args
    std::span<PyObject* const> rest;
    internal::InlineVector<PyObject*, 2> holds;  // new references

    Bound() = default;
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;
    ~Bound() {
      for (PyObject* held : holds) Py_DECREF(held);
    }
  };
  // False if the arguments do not fit: Python's own error is then made by the caller.
  bool bind(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names,
            Bound& to) const;
};

// The leaves of a call, in the order of its containers, and the tokens of these.
class CallReader {
 public:
  explicit CallReader(const FunctionParameters& parameters) : parameters_(parameters) {}
  CallReader(const CallReader&) = delete;
  CallReader& operator=(const CallReader&) = delete;
  ~CallReader() {
    for (PyObject* held : holds_) Py_DECREF(held);
    for (const Leaf& leaf : leaves) Py_DECREF(leaf.object);
  }

  // `first`: the first parameter that takes part in the key.
  void read(const FunctionParameters::Bound& bound, std::size_t first);

  // Inline sizes for a model of many tensors: growing costs more than space on the stack.
  internal::InlineVector<uint64_t, 256> tokens;
  // Leaf i has an object, held as long as this reader; a tensor leaf also its value, which another
  // thread may replace in the object meanwhile.
  struct Leaf {
    PyObject* object;  // an own reference
    Tensor value;
    using Relocatable = void;
  };
  internal::InlineVector<Leaf, 112> leaves;
  // Optimisers, borrowed from the call, and the number of their first leaf.
  struct HeldOptimizer {
    PyObject* object;
    std::size_t first;
  };
  internal::InlineVector<HeldOptimizer, 4> optimizers;

 private:
  void read(PyObject* value, const FunctionParameter* parameter);
  void rest(std::span<PyObject* const> items);
  void node(const ClassInfo& info, PyObject* value);
  void items(PyObject* tuple);
  void entries(PyObject* dict);
  void layer(PyObject* value);
  void held(std::span<const nb::object> leaves);
  void leaf(uint64_t token, PyObject* object, const Tensor& value);
  // Keeps a new reference.
  PyObject* hold(PyObject* object) {
    if (object == nullptr) throw nb::python_error();
    holds_.push_back(object);
    return object;
  }
  const FunctionParameters& parameters_;
  internal::InlineVector<PyObject*, 16> holds_;  // objects besides leaves
  int depth_ = 0;
};

// The order of the leaves of calls with equal tokens.
struct CallLayout {
  std::vector<uint64_t> tokens;
  const TreeDef* def = nullptr;     // of all arguments: a node with the names of the parameters
  std::vector<uint32_t> order;      // leaf i of the def is leaf order[i] of the reader
  std::vector<uint8_t> is_donated;  // by leaf of the def
  bool has_donated = false, has_hosts = false, has_states = false;
  bool is_plain = false;  // all leaves are tensors, in the order of the reader
};

// A leaf of the def, as an argument of the library.
// throws: kInvalidArgument for a host value that cannot be a key.
std::unique_ptr<CallLayout> layout_of(const FunctionParameters& parameters,
                                      const FunctionParameters::Bound& bound, std::size_t first,
                                      const CallReader& reader);
// A donated tensor may be written, so that it may be no other argument. throws: kInvalidArgument.
void require_distinct(const CallLayout& layout, const CallReader& reader,
                      const std::string& function);
// Fills `to` in the order of the layout. `names` may be null. Values of `reader` and `hosts` must
// outlive `to`.
void collect(const CallLayout& layout, CallReader& reader, std::vector<HostLeaf>& hosts,
             const std::string& function, internal::Arguments& to, internal::ArgumentNames* names);

}  // namespace etude::python
