// SPDX-License-Identifier: Apache-2.0
// x[...], x[...] = v, len(x) and iteration, by the rules of NumPy. The rules themselves are in
// core/index.h.
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/run.h"
#include "etude/core/call/values.h"
#include "etude/core/context/context.h"
#include "etude/core/index.h"
#include "etude/core/op/registry.h"
#include "python/src/convert.h"
#include "python/src/index.h"
#include "python/src/numpy.h"
#include "python/src/op_object.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

std::optional<int64_t> slice_end(PyObject* end) {
  if (end == Py_None) return {};
  if (PyIndex_Check(end) == 0) {
    throw nb::type_error(
        ("slice ends must be ints or None, but one is a " + type_text(end)).c_str());
  }
  // Ends beyond the range of int64 are clamped, as in lists.
  const Py_ssize_t out = PyNumber_AsSsize_t(end, nullptr);
  if (out == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

void add_item(Index& index, PyObject* item, CallSite where) {
  if (PyLong_CheckExact(item)) {
    int overflow = 0;
    const int64_t at = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0) {
      throw Error(
          ErrorCode::kOutOfRange,
          "index " + nb::cast<std::string>(nb::str(nb::handle(item))) + " has more than 64 bits");
    }
    index.emplace_back(at, where);
  } else if (PySlice_Check(item)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(item);
    index.emplace_back(
        Slice{slice_end(slice->start), slice_end(slice->stop), slice_end(slice->step).value_or(1)},
        where);
  } else if (item == Py_None) {
    index.emplace_back(NewAxis(), where);
  } else if (item == Py_Ellipsis) {
    index.emplace_back(Ellipsis(), where);
  } else if (is_tensor_object(item)) {
    index.emplace_back(tensor_in(item), where);
  } else if (PyBool_Check(item)) {
    index.emplace_back(Tensor(item == Py_True), where);
  } else if (PyIndex_Check(item) && !is_foreign_array(item)) {
    const Py_ssize_t at = PyNumber_AsSsize_t(item, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    index.emplace_back(static_cast<int64_t>(at), where);
  } else {
    Tensor tensor =
        PyFloat_Check(item) || PyUnicode_Check(item) ? Tensor() : make_new_tensor(item, {});
    if (!tensor.has_value()) {
      throw nb::type_error(("an index is an int, a slice, None, ..., or a tensor, array or list of "
                            "ints or bools; not a " +
                            type_text(item))
                               .c_str());
    }
    // NumPy reads an empty list as integers.
    const bool is_empty_list = tensor.type()->count() == 0 && PyList_Check(item);
    index.emplace_back(is_empty_list ? Tensor(std::vector<int64_t>()) : tensor, where);
  }
}

// x[True], or x[mask] with a mask without axes: the mask takes all or nothing of a new axis 0.
bool is_scalar_mask(PyObject* key) noexcept {
  return PyBool_Check(key) || (is_tensor_object(key) && tensor_in(key).dtype() == kBool &&
                               tensor_in(key).type()->rank() == 0);
}
const Op& named(const char* name) { return Registry::global().at(name); }

PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_in(self);
    const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
    if (is_scalar_mask(key)) {
      static const Op &expand = named("expand_dims"), &reshape = named("reshape");
      const auto mask = is_tensor_object(key) ? tensor_in(key) : Tensor(key == Py_True);
      return new_tensor(released([&] {
        const Tensor rows = internal::run(expand, {&x}, {IntList(0)}, where);
        const Tensor row_mask = internal::run(reshape, {&mask}, {IntList(1)}, where);
        return get_index(rows, {IndexItem(row_mask, where)}, where);
      }));
    }
    const Index index = index_of(key, where);
    if (index.empty()) return new_tensor(Tensor(x));
    const auto run = [&] { return get_index(x, index, where); };
    return new_tensor(keeps_gil(TensorAccess::rep(x)->type->bytes()) ? run() : released(run));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
    return -1;
  }
  try {
    Tensor& x = tensor_in(self);
    const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
    Index index;
    if (!is_scalar_mask(key)) {
      index = index_of(key, where);
    } else if (PyObject_IsTrue(key) == 0) {
      return 0;
    }
    if (index.empty()) index.emplace_back(Ellipsis(), where);
    Operand operand;
    if (!operand.read(value, where, false)) {
      throw nb::type_error(
          ("the value of an item assignment is a tensor, a number, an array or a list; not a " +
           type_text(value))
              .c_str());
    }
    if (operand.is_complex_number()) operand.set_complex_precision(x.dtype(), where);
    const auto run = [&] {
      set_index(x, index, operand.arg(), ScatterMode::kSet, where);
      return 0;
    };
    return keeps_gil(TensorAccess::rep(x)->type->bytes() + operand.bytes()) ? run() : released(run);
  } catch (...) {
    set_current_exception();
    return -1;
  }
}

int64_t length_or_throw(const Tensor& x) {
  if (x.rank() == 0) throw nb::type_error("a tensor without axes has no length");
  return with_user_line([&] { return x.shape(internal::mode_word != 0 ? here() : CallSite{})[0]; });
}

Py_ssize_t length(PyObject* self) {
  try {
    const int64_t size = length_or_throw(tensor_in(self));
    if (size == kAny)
      throw nb::type_error("the length of this tensor is not known while a function is traced");
    return size;
  } catch (...) {
    set_current_exception();
    return -1;
  }
}

// value in x: whether an element equals it.
int contains(PyObject* self, PyObject* value) {
  const nb::object equal = nb::steal(PyObject_RichCompare(self, value, Py_EQ));
  if (!equal.is_valid()) return -1;
  if (!is_tensor(equal)) return PyObject_IsTrue(equal.ptr());
  static const Op& any = Registry::global().at("any");
  const nb::object found = nb::steal(call_unary(any, equal.ptr()));
  return found.is_valid() ? PyObject_IsTrue(found.ptr()) : -1;
}

}  // namespace

Index index_of(PyObject* key, CallSite where) {
  Index index;
  if (PyTuple_Check(key)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(key);
    index.reserve(static_cast<std::size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) add_item(index, PyTuple_GET_ITEM(key, i), where);
  } else {
    add_item(index, key, where);
  }
  return index;
}

PyMappingMethods tensor_mapping = {length, get_item, set_item};
PySequenceMethods tensor_sequence = [] {
  PySequenceMethods table{};
  table.sq_contains = contains;
  return table;
}();

// The rows at the start of the loop: writes to x during the loop do not show (V10).
PyObject* iterate_tensor(PyObject* self) noexcept {
  return guarded([&]() -> PyObject* {
    static const Op& op = Registry::global().at("unstack");
    const Tensor x = tensor_in(self);
    if (x.rank() == 0) throw nb::type_error("a tensor without axes cannot be iterated over");
    const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
    const auto run = [&] {
      return execute(op, OperandList({&x}).view(), op.default_attrs(), where);
    };
    Values rows = keeps_gil(x.type()->bytes()) ? run() : released(run);
    const nb::object list = nb::steal(results_of(std::move(rows), nullptr, false));
    if (!list.is_valid()) throw nb::python_error();
    return PyObject_GetIter(list.ptr());
  });
}

}  // namespace etude::python
