// SPDX-License-Identifier: Apache-2.0
// py_function: Python code that a graph calls each time it runs (stage/host_function.h), and
// call_time_value.
#include <new>
#include <utility>

#include "etude/base/check.h"
#include "etude/ops.h"
#include "etude/stage/call_time.h"
#include "etude/stage/host_function.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"
#include "python/src/program/python_function.h"

namespace etude::python {
namespace {

using internal::HostFacts;
using internal::RefPtr;

// "ValueError: no such row\n  File ...": the exception and the lines of the user's code.
std::string text_of_exception(nb::handle exception) {
  try {
    const nb::object traceback = nb::module_::import_("traceback");
    const nb::object lines = traceback.attr("format_exception")(
        nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr()))), exception,
        exception.attr("__traceback__"));
    std::string out = nb::cast<std::string>(nb::str("").attr("join")(lines));
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  } catch (nb::python_error&) {
    return Py_TYPE(exception.ptr())->tp_name;
  }
}

ErrorCode code_of_exception(nb::handle exception) {
  const auto is = [&](PyObject* type) {
    return PyErr_GivenExceptionMatches(exception.ptr(), type) != 0;
  };
  if (is(PyExc_NotImplementedError)) return ErrorCode::kUnimplemented;
  if (is(PyExc_StopIteration) || is(PyExc_IndexError)) return ErrorCode::kOutOfRange;
  if (is(PyExc_MemoryError)) return ErrorCode::kResourceExhausted;
  if (is(PyExc_ValueError) || is(PyExc_TypeError)) return ErrorCode::kInvalidArgument;
  return ErrorCode::kFailedPrecondition;
}

// Runs Python code for a graph. throws: Error with the Python exception as its cause.
template <class F>
auto run_python(F&& f) {
  return with_gil([&] {
    try {
      return f();
    } catch (nb::python_error& error) {
      // Ends the program or the cell: not an error of the callable.
      if (error.matches(PyExc_KeyboardInterrupt) || error.matches(PyExc_SystemExit)) throw;
      Error out(code_of_exception(error.value()),
                "its callable raised " + text_of_exception(error.value()));
      out.set_cause(std::current_exception());
      throw out;
    }
  });
}

// The declared results: a structure of types.
struct Declared {
  const TreeDef* def = nullptr;  // of tensors
  std::vector<TensorSpec> specs;
};

// A callable with the structure of one call's arguments.
class PythonCallable final : public internal::HostCallable {
 public:
  PythonCallable(RefPtr<const HostFacts> facts, SharedObject f, const TreeDef* args,
                 std::span<const nb::object> leaves, const TreeDef* results)
      : HostCallable(std::move(facts)), f_(std::move(f)), args_(args), results_(results) {
    // Tensors come with each run.
    std::vector<nb::object> hosts;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const bool is_tensor_leaf = args->leaves[i] == NodeKind::kTensor && !leaves[i].is_none();
      present_.push_back(is_tensor_leaf);
      hosts.push_back(is_tensor_leaf ? nb::none() : leaves[i]);
    }
    hosts_ = KeptLeaves(hosts);
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) const override {
    return run_python([&] {
      std::vector<nb::object> leaves = hosts_.get();
      std::size_t next = 0;
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (present_[i]) leaves[i] = wrap(inputs[next++]);
      }
      return call(facts(), *f_, *args_, leaves, *results_);
    });
  }

  // Calls f, and returns the tensors of its result.
  static std::vector<Tensor> call(const HostFacts& facts, const KeptObject& f, const TreeDef& args,
                                  std::span<const nb::object> leaves, const TreeDef& results) {
    const nb::object tuple = unflatten(args, leaves);
    const nb::object made = f.get()(*nb::borrow<nb::tuple>(tuple));
    std::vector<Tensor> out;
    if (results.leaves.empty()) return out;
    if (results.kind == NodeKind::kTensor) {  // a nested list is one tensor
      if (!made.is_none()) out.push_back(cast_to(made, *facts.results[0]));
      return out;
    }
    const bool is_sequence = nb::isinstance<nb::tuple>(made) || nb::isinstance<nb::list>(made);
    const bool is_list = results.kind == NodeKind::kTuple || results.kind == NodeKind::kList;
    if (is_list && (!is_sequence || nb::len(made) != results.parts.size())) {
      const std::size_t count = is_sequence ? nb::len(made) : made.is_none() ? 0 : 1;
      ETUDE_THROW(kInvalidArgument, "its callable returned {} results, but {} were declared: {}",
                  count, results.parts.size(), declared_text(facts));
    }
    std::size_t i = 0;
    for (const nb::object& leaf : leaves_like(results, made, "the result of its callable")) {
      out.push_back(leaf.is_none() ? Tensor() : cast_to(leaf, *facts.results[i]));
      ++i;
    }
    return out;
  }

 private:
  // Host numbers and lists take the declared dtype; tensors keep theirs, which is checked.
  static Tensor cast_to(nb::handle x, const Type& type) {
    if (is_tensor(x) || is_variable(x)) return as_tensor(x);
    Tensor out = as_tensor(x);
    const bool is_number = PyLong_Check(x.ptr()) != 0 || PyFloat_Check(x.ptr()) != 0;
    if (is_number && out.dtype() != type.dtype()) out = astype(out, type.dtype());
    return out;
  }
  static std::string declared_text(const HostFacts& facts) {
    std::string out;
    for (const Type* type : facts.results) out += (out.empty() ? "" : ", ") + type->to_string();
    return out.empty() ? "none" : out;
  }

  SharedObject f_;
  const TreeDef* args_;
  const TreeDef* results_;
  KeptLeaves hosts_;
  std::vector<bool> present_;
};

// A py_function before its calls.
class PythonHostFunction {
 public:
  // `specs`: tuples (shape, dtype), one per leaf of `structure`, whose leaves do not matter.
  PythonHostFunction(nb::handle f, nb::handle structure, nb::handle specs, nb::handle variables,
                     std::string name)
      : f_(share(f)) {
    const CallSite where = here();
    results_ = tree_of(structure, Numbers::kAll).def;
    std::vector<TensorSpec> types;
    for (const nb::handle spec : nb::iter(specs)) {
      TensorSpec& made = types.emplace_back();
      made.shape = open_shape(nb::object(spec[0]), "TensorSpec: the shape");
      made.dtype = as_dtype(spec[1]);
    }
    std::vector<Variable> listed;
    for (const nb::handle v : nb::iter(variables)) {
      ETUDE_REQUIRE(is_variable(v), "py_function: variables= holds a {}, but takes Variables",
                    type_text(v));
      listed.push_back(variable_of(v));
    }
    facts_ = internal::make_ref<const HostFacts>(std::move(name), std::move(types),
                                                 std::move(listed), where);
  }

  nb::object operator()(const nb::args& args) const {
    const Tree tree = tree_of(args, Numbers::kKeep);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
      if (tree.def->leaves[i] == NodeKind::kTensor && !tree.leaves[i].is_none()) {
        inputs.push_back(tensor_of(tree.leaves[i]));
      }
    }
    const CallSite where = here();
    std::vector<Tensor> out;
    if (internal::is_plain_host_call(inputs)) {
      // A plain call, with the exceptions of Python; only the types are checked on top.
      out = PythonCallable::call(*facts_, *f_, *tree.def, tree.leaves, *results_);
      internal::located(facts_->title(), where, [&] { internal::require_declared(*facts_, out); });
    } else {
      const RefPtr<const internal::HostCallable> bound(
          new PythonCallable(facts_, f_, tree.def, tree.leaves, results_));
      out = with_user_line_released([&] { return internal::call_host(bound, inputs, where); });
    }
    std::vector<nb::object> leaves;
    for (Tensor& x : out) leaves.push_back(wrap(std::move(x)));
    if (results_->leaves.empty()) return nb::none();
    return unflatten(*results_, leaves);
  }
  const std::string& name() const { return facts_->name; }

 private:
  SharedObject f_;
  const TreeDef* results_;
  RefPtr<const HostFacts> facts_;
};

// The code of a thunk: all traces take the thunks of one line for the same thunk.
nb::object call_time(nb::handle thunk) {
  const CallSite where = here();
  const SharedObject shared = share(thunk);
  const auto source = std::make_shared<const internal::CallTimeValue>(internal::CallTimeValue{
      [shared] { return with_gil([&] { return as_tensor(shared->get()()); }); },
      typeid(PythonHostFunction), where});
  return wrap(with_user_line_released([&] { return internal::take_call_time_value(source); }));
}

}  // namespace

void bind_host(nb::module_& m) {
  nb::class_<PythonHostFunction>(m, "_HostFunction")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, std::string>(), nb::arg(),
           nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("__call__", &PythonHostFunction::operator())
      .def_prop_ro("name", &PythonHostFunction::name);
  m.def("call_time_value", call_time, nb::arg("thunk"),
        "The value of thunk(), read at each call of the staged function around.");
}

}  // namespace etude::python
