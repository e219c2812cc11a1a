// SPDX-License-Identifier: Apache-2.0
// The type etude.Function: a callable of CPython with vectorcall, since a repeated call of a small
// graph costs less than a call through nanobind. A method of an instance is a Function as well.
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <Python.h>
#include <structmember.h>

#include "etude/base/check.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/stage/function.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"
#include "python/src/program/staged.h"

namespace etude::python {
namespace {

// The caches of a method, by instance. An entry goes with its instance.
struct Instances {
  struct Entry {
    KeptObject weak;
    std::shared_ptr<Staged> staged;
  };
  std::unordered_map<PyObject*, Entry> all;
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* attributes;  // __dict__
  PyObject* weak_references;
  PyObject* callable;
  PyObject* self;  // of a method of an instance; null: none
  bool is_self_bound;
  std::shared_ptr<const StagedFacts> facts;
  std::shared_ptr<Staged> staged;
  std::shared_ptr<Instances> instances;  // of an unbound function
};

extern PyTypeObject function_type;

FunctionObject* object_of(PyObject* self) { return reinterpret_cast<FunctionObject*>(self); }
HostFunction host_of(const FunctionObject& f) { return {f.callable, f.self, f.is_self_bound}; }

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  release_pending();
  FunctionObject& f = *object_of(self);
  return guarded([&]() -> PyObject* {
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    if (f.staged->core().runs_eagerly()) {
      if (f.self == nullptr) return PyObject_Vectorcall(f.callable, args, count, names);
      const nb::object method = nb::steal(PyMethod_New(f.callable, f.self));
      if (!method.is_valid()) throw nb::python_error();
      return PyObject_Vectorcall(method.ptr(), args, count, names);
    }
    return f.staged->call(host_of(f), args, count, names).release().ptr();
  });
}

PyObject* new_function(const FunctionObject& like, PyObject* self, std::shared_ptr<Staged> staged) {
  FunctionObject* const made = PyObject_GC_New(FunctionObject, &function_type);
  if (made == nullptr) throw nb::python_error();
  made->call = vectorcall;
  made->attributes = like.attributes;
  Py_XINCREF(made->attributes);
  made->weak_references = nullptr;
  made->callable = like.callable;
  Py_INCREF(made->callable);
  made->self = self;
  Py_XINCREF(self);
  made->is_self_bound = false;
  new (&made->facts) std::shared_ptr<const StagedFacts>(like.facts);
  new (&made->staged) std::shared_ptr<Staged>(std::move(staged));
  new (&made->instances) std::shared_ptr<Instances>();
  PyObject_GC_Track(made);
  return reinterpret_cast<PyObject*>(made);
}

// The cache of an instance, which does not keep it alive. Null for an instance that is an argument:
// a structure of tensors, an object without weak references, or one of *args.
std::shared_ptr<Staged> staged_of_instance(FunctionObject& f, PyObject* instance) {
  if (class_of(Py_TYPE(instance)).of == Class::kNode) return nullptr;
  const std::vector<FunctionParameter>& parameters = f.facts->parameters.all;
  if (parameters.empty() || parameters[0].kind == FunctionParameter::Kind::kArgs) return nullptr;
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(instance))) return nullptr;
  if (f.instances == nullptr) f.instances = std::make_shared<Instances>();
  Instances::Entry& entry = f.instances->all[instance];
  if (entry.staged == nullptr) {
    const nb::object drop =
        nb::cpp_function([instance, table = std::weak_ptr<Instances>(f.instances)](nb::handle) {
          const std::shared_ptr<Instances> alive = table.lock();
          if (alive == nullptr) return;
          const auto node = alive->all.extract(instance);  // freed after the table has changed
        });
    PyObject* const weak = PyWeakref_NewRef(instance, drop.ptr());
    if (weak == nullptr) throw nb::python_error();
    entry.weak = KeptObject(nb::steal(weak));
    entry.staged = std::make_shared<Staged>(f.facts);
  }
  return entry.staged;
}

PyObject* get_method(PyObject* self, PyObject* instance, PyObject* /*owner*/) {
  FunctionObject& f = *object_of(self);
  if (instance == nullptr || instance == Py_None || f.self != nullptr) {
    Py_INCREF(self);
    return self;
  }
  return guarded([&] {
    std::shared_ptr<Staged> own = staged_of_instance(f, instance);
    const bool is_bound = own != nullptr;
    PyObject* const made = new_function(f, instance, is_bound ? std::move(own) : f.staged);
    object_of(made)->is_self_bound = is_bound;
    return made;
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  FunctionObject& f = *object_of(self);
  Py_VISIT(f.attributes);
  Py_VISIT(f.callable);
  Py_VISIT(f.self);
  return 0;
}

int clear(PyObject* self) {
  FunctionObject& f = *object_of(self);
  Py_CLEAR(f.attributes);
  Py_CLEAR(f.self);
  return 0;
}

void deallocate(PyObject* self) {
  FunctionObject& f = *object_of(self);
  PyObject_GC_UnTrack(self);
  if (f.weak_references != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  Py_CLEAR(f.callable);
  f.instances.~shared_ptr();
  f.staged.~shared_ptr();
  f.facts.~shared_ptr();
  PyObject_GC_Del(self);
}

PyObject* text_of(PyObject* self) {
  return guarded([&] {
    const std::string text = "<etude.Function '" + object_of(self)->staged->name() + "'>";
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, attributes), READONLY, nullptr},
    {"__self__", T_OBJECT, offsetof(FunctionObject, self), READONLY,
     "The instance of a method, or None."},
    {nullptr, 0, 0, 0, nullptr}};

// A graph of a function, for inspection and calls.
struct PythonGraph {
  std::shared_ptr<Staged> staged;
  internal::TraceRef trace;
  KeptObject callable, self;
  bool is_self_bound;

  GraphFunction graph() const { return GraphFunction(trace); }
};

nb::object graph_object(const FunctionObject& f, internal::TraceRef trace) {
  PythonGraph made{f.staged, std::move(trace), KeptObject(nb::borrow(f.callable)),
                   f.self == nullptr ? KeptObject() : KeptObject(nb::borrow(f.self)),
                   f.is_self_bound};
  return nb::cast(std::move(made));
}

PyObject* spec_tracer = nullptr;  // of the package: reads the specs among arguments
PyTypeObject* spec_class = nullptr;

// Whether a spec is among the arguments, or below them.
bool has_spec(PyObject* const* args, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (Py_TYPE(args[i]) == &PyUnicode_Type || is_tensor(args[i])) continue;
    for (const nb::object& leaf : tree_of(args[i], Numbers::kKeep).leaves) {
      if (PyObject_TypeCheck(leaf.ptr(), spec_class) != 0) return true;
    }
  }
  return false;
}

PyObject* method_trace(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    FunctionObject& f = *object_of(self);
    const auto keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    if (has_spec(args, static_cast<std::size_t>(count + keywords))) {
      nb::list positional;
      nb::dict named;
      for (Py_ssize_t i = 0; i < count; ++i) positional.append(nb::handle(args[i]));
      for (Py_ssize_t k = 0; k < keywords; ++k) {
        named[nb::handle(PyTuple_GET_ITEM(names, k))] = nb::handle(args[count + k]);
      }
      return nb::handle(spec_tracer)(nb::handle(self), nb::tuple(positional), named)
          .release()
          .ptr();
    }
    return graph_object(f,
                        f.staged->trace(host_of(f), args, static_cast<std::size_t>(count), names))
        .release()
        .ptr();
  });
}

PyObject* method_reduce(PyObject* self, PyObject*) {
  FunctionObject& f = *object_of(self);
  if (f.self == nullptr) return PyObject_GetAttrString(self, "__qualname__");
  // A method is an attribute of its instance, as for methods of Python.
  return guarded([&]() -> PyObject* {
    const nb::object name = nb::steal(PyObject_GetAttrString(f.callable, "__name__"));
    if (!name.is_valid()) throw nb::python_error();
    const nb::object get = nb::module_::import_("builtins").attr("getattr");
    return nb::make_tuple(get, nb::make_tuple(nb::handle(f.self), name)).release().ptr();
  });
}

PyObject* method_traces(PyObject* self, PyObject*) {
  return guarded([&] {
    FunctionObject& f = *object_of(self);
    nb::list out;
    for (internal::TraceRef& trace : f.staged->traces()) {
      out.append(graph_object(f, std::move(trace)));
    }
    return out.release().ptr();
  });
}

PyObject* method_trace_count(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromSize_t(object_of(self)->staged->traces().size()); });
}

template <bool only_trainable>
PyObject* method_variables(PyObject* self, PyObject*) {
  return guarded([&] {
    internal::FunctionCore& core = object_of(self)->staged->core();
    nb::list out;
    for (const Variable& v : released([&] { return core.variables(); })) {
      if (!only_trainable || v.trainable()) out.append(wrap_variable(v));
    }
    return out.release().ptr();
  });
}

PyObject* method_explain(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"all", nullptr};
    int all = 0;
    if (PyArg_ParseTupleAndKeywords(args, keywords, "|$p", const_cast<char**>(names), &all) == 0) {
      return nullptr;
    }
    internal::FunctionCore& core = object_of(self)->staged->core();
    std::string text = released([&] { return core.explain({.all = all != 0}); });
    for (const std::string& each : object_of(self)->staged->explain_specified()) text += each;
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

template <class F>
PyCFunction method(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {
    {"__reduce__", method_reduce, METH_NOARGS,
     "__reduce__()\n--\n\nThe name of the function: pickles hold no graphs."},
    {"trace", method(method_trace), METH_FASTCALL | METH_KEYWORDS,
     "trace(*args, **kwargs)\n--\n\nThe graph for arguments like these, made if there is none. "
     "Tensors may be given by their et.TensorSpec, with open sizes. Nothing is run."},
    {"traces", method(method_traces), METH_NOARGS, "traces()\n--\n\nAll graphs, oldest first."},
    {"trace_count", method(method_trace_count), METH_NOARGS,
     "trace_count()\n--\n\nThe number of graphs."},
    {"variables", method(method_variables<false>), METH_NOARGS,
     "variables()\n--\n\nThe Variables that its graphs reach, in the order of first use."},
    {"trainable_variables", method(method_variables<true>), METH_NOARGS,
     "trainable_variables()\n--\n\nThose of variables() that are trainable."},
    {"explain", method(method_explain), METH_VARARGS | METH_KEYWORDS,
     "explain(*, all=False)\n--\n\nOne line per graph: what it was made for, and why."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject make_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "etude.Function";
  type.tp_basicsize = sizeof(FunctionObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc =
      "A staged function: a call with a new kind of arguments traces the function into a graph, "
      "later calls run the graph. Made by etude.function().";
  type.tp_vectorcall_offset = offsetof(FunctionObject, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_dictoffset = offsetof(FunctionObject, attributes);
  type.tp_weaklistoffset = offsetof(FunctionObject, weak_references);
  type.tp_descr_get = get_method;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_dealloc = deallocate;
  type.tp_repr = text_of;
  type.tp_members = members + 1;
  type.tp_methods = methods;
  type.tp_getset = properties;
  type.tp_getattro = PyObject_GenericGetAttr;
  type.tp_setattro = PyObject_GenericSetAttr;
  return type;
}
PyTypeObject function_type = make_type();

// The specs of a signature: tuples (name, shape, dtype, is_variable), in flattening order; None for
// an absent tensor.
Signature signature_of(nb::handle specs) {
  std::vector<Signature::Spec> made;
  for (const nb::handle spec : nb::iter(specs)) {
    if (spec.is_none()) {
      made.emplace_back(AbsentSpec());
      continue;
    }
    const auto name = nb::cast<std::string>(spec[0]);
    const Shape shape = open_shape(nb::object(spec[1]), "TensorSpec: the shape");
    const DType dtype = as_dtype(spec[2]);
    if (nb::cast<bool>(spec[3])) {
      made.emplace_back(VariableSpec{shape, dtype});
    } else {
      made.emplace_back(name, TensorSpec{shape, dtype});
    }
  }
  return Signature(std::move(made), here());
}

// The graph of a function for arguments with placeholders of tensors, whose types are `specs`.
nb::object trace_specified(nb::handle function, const nb::tuple& args, const nb::dict& named,
                           nb::handle specs) {
  ETUDE_REQUIRE(Py_TYPE(function.ptr()) == &function_type, "trace: a function of etude is needed");
  FunctionObject& f = *object_of(function.ptr());
  std::vector<PyObject*> all;
  for (const nb::handle arg : args) all.push_back(arg.ptr());
  nb::list keys;
  for (const auto& [key, value] : named) {
    keys.append(key);
    all.push_back(value.ptr());
  }
  const nb::tuple names(keys);
  return graph_object(f, f.staged->trace_specified(host_of(f), signature_of(specs), all.data(),
                                                   args.size(), names.ptr()));
}

nb::object make_function(nb::handle callable, nb::handle parameters, nb::handle empty,
                         const nb::dict& options) {
  const auto facts = std::make_shared<StagedFacts>(parameters, empty);
  facts->where = here();
  facts->options.name = nb::cast<std::string>(options["name"]);
  facts->options.relax_shapes = nb::cast<bool>(options["relax_shapes"]);
  facts->options.run_eagerly = nb::cast<bool>(options["run_eagerly"]);
  facts->options.max_traces = nb::cast<std::size_t>(options["max_traces"]);
  facts->converts = nb::cast<bool>(options["convert"]);
  for (const nb::handle name : nb::iter(nb::object(options["donate"]))) {
    FunctionParameter* const found = facts->parameters.find(nb::cast<std::string>(name));
    ETUDE_REQUIRE(found != nullptr, "function: donate names '{}', which is no parameter of '{}'",
                  nb::cast<std::string>(name), facts->options.name);
    found->is_donated = true;
  }
  const nb::object specs = options["signature"];
  if (!specs.is_none()) {
    facts->options.signature = signature_of(specs);
    facts->specs = nb::cast<std::size_t>(options["specs"]);
    const nb::object dtypes = options["dtypes"];
    std::size_t i = 0;
    for (const nb::handle dtype : nb::iter(dtypes)) {
      if (!dtype.is_none()) facts->parameters.all[i].dtype = as_dtype(dtype);
      ++i;
    }
  }
  FunctionObject like{};
  like.callable = callable.ptr();
  like.facts = facts;
  return nb::steal(new_function(like, nullptr, std::make_shared<Staged>(facts)));
}

nb::object call_graph(const PythonGraph& graph, const nb::args& args, const nb::kwargs& keywords) {
  std::vector<PyObject*> all;
  for (const nb::handle arg : args) all.push_back(arg.ptr());
  nb::list names;
  for (const auto& [key, value] : keywords) {
    names.append(key);
    all.push_back(value.ptr());
  }
  const HostFunction host{graph.callable.get().ptr(), graph.self.get().ptr(), graph.is_self_bound};
  const nb::tuple keys(names);
  return graph.staged->call_graph(graph.trace, host, all.data(), args.size(),
                                  names.size() == 0 ? nullptr : keys.ptr());
}

// The inputs of a graph besides captures: (name, type). Open sizes have the names of its text.
nb::list ports(const Graph& graph, const SymbolicGraph* symbolic, bool is_output) {
  nb::list out;
  const auto type = [&](GraphValue value) {
    return symbolic == nullptr ? graph.type(value)->to_string() : symbolic->type_text(value);
  };
  if (is_output) {
    for (const GraphValue output : graph.outputs()) out.append(nb::make_tuple("", type(output)));
  } else {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      out.append(nb::make_tuple(graph.inputs()[i].name, type(static_cast<GraphValue>(i))));
    }
  }
  return out;
}

}  // namespace

std::optional<StagedFunction> staged_function(nb::handle function) {
  if (Py_TYPE(function.ptr()) != &function_type) return std::nullopt;
  const FunctionObject& f = *object_of(function.ptr());
  return StagedFunction{f.staged.get(), host_of(f)};
}

void bind_function(nb::module_& m) {
  if (PyType_Ready(&function_type) < 0) throw nb::python_error();
  m.attr("Function") = nb::handle(reinterpret_cast<PyObject*>(&function_type));
  m.def("_make_function", make_function);
  m.def("_trace_specified", trace_specified);
  m.def("_set_spec_class", [](nb::handle type, nb::handle tracer) {
    spec_class = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
    spec_tracer = tracer.inc_ref().ptr();
  });
  m.def("_set_converter", [](nb::object convert) { set_converter(std::move(convert)); });
  m.def("run_functions_eagerly", run_functions_eagerly, nb::arg("flag") = true,
        "While true, calls of all functions run their Python function, even if graphs exist.");
  m.def("functions_run_eagerly", functions_run_eagerly);
  nb::class_<PythonGraph>(m, "GraphFunction", "One graph of a function.")
      .def("__call__", call_graph)
      .def_prop_ro("name", [](const PythonGraph& g) { return g.graph().name(); })
      .def_prop_ro("inputs",
                   [](const PythonGraph& g) {
                     return ports(g.graph().graph(), g.graph().symbolic_graph().get(), false);
                   })
      .def_prop_ro("outputs",
                   [](const PythonGraph& g) {
                     return ports(g.graph().graph(), g.graph().symbolic_graph().get(), true);
                   })
      .def_prop_ro("captures",
                   [](const PythonGraph& g) {
                     nb::list out;
                     for (const Tensor& x : g.trace->captures) out.append(wrap(x));
                     return out;
                   })
      .def("__str__", [](const PythonGraph& g) { return g.graph().to_string(); })
      .def("__repr__",
           [](const PythonGraph& g) { return "<etude.GraphFunction '" + g.graph().name() + "'>"; });
}

}  // namespace etude::python
