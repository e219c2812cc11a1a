// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/python_function.h"

#include "etude/base/check.h"

namespace etude::python {

KeptLeaves::KeptLeaves(std::span<const nb::object> leaves) {
  const nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(leaves.size())));
  if (!tuple.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), leaves[i].inc_ref().ptr());
  }
  tuple_ = KeptObject(tuple);
}

std::vector<nb::object> KeptLeaves::get() const {
  std::vector<nb::object> out;
  if (!tuple_.get().is_valid()) return out;
  for (const nb::handle leaf : nb::borrow<nb::tuple>(tuple_.get())) out.push_back(nb::borrow(leaf));
  return out;
}

PythonFunction::PythonFunction(std::string name, nb::handle f, const TreeDef* args,
                               std::span<const nb::object> leaves, nb::handle keywords)
    : name_(std::move(name)),
      f_(nb::borrow(f)),
      keywords_(keywords.is_valid() ? nb::borrow(keywords) : nb::object(nb::dict())),
      args_(args),
      leaves_(leaves) {}

nb::object PythonFunction::call(const Parts& args) const {
  const nb::object tree = tree_of_parts(*args_, args, leaves_.get());
  PyObject* const result = PyObject_Call(f_.get().ptr(), tree.ptr(), keywords_.get().ptr());
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

Parts PythonFunction::operator()(const Parts& args) {
  return with_gil([&] {
    const Tree tree = tree_of(call(args), Numbers::kValues);
    require_results(tree, name_);
    result_ = tree.def;
    result_leaves_ = KeptLeaves(tree.leaves);
    return parts_of_tree(tree);
  });
}

Tensor PythonFunction::scalar(const Parts& args, bool has_aux) {
  return with_gil([&] {
    nb::object result = call(args);
    if (has_aux) {
      ETUDE_REQUIRE(nb::isinstance<nb::tuple>(result) && nb::len(result) == 2,
                    "{}: the function returns {}, but with has_aux=True it returns a pair: the "
                    "scalar and anything else",
                    name_, type_text(result));
      aux_ = KeptObject(nb::object(result[1]));
      result = nb::object(result[0]);
    }
    ETUDE_REQUIRE(is_tensor(result) || is_array_like(result),
                  "{}: the function returns {}, but must return one scalar tensor{}. For other "
                  "results use pullback",
                  name_, result.is_none() ? "None" : "a " + type_text(result),
                  result.is_none() ? " (is a return missing?)" : "");
    return is_tensor(result) ? tensor_of(result) : as_tensor(result);
  });
}

nb::object PythonFunction::tree_of_result(const Parts& value) const {
  return tree_of_parts(*result_, value, result_leaves_.get());
}

nb::object PythonFunction::tangent_of_result(const Parts& value, const Parts& tangent) const {
  return tree_of_tangent(*result_, tangent, leaves_of_parts(*result_, value, result_leaves_.get()));
}

Parts PythonFunction::cotangent(nb::handle value, std::string_view what) const {
  return tangent_of_tree(*result_, value, what);
}

nb::object PythonFunction::tree_of_args_tangent(const Parts& tangent) const {
  return tree_of_tangent(*args_, tangent, leaves_.get());
}

}  // namespace etude::python
