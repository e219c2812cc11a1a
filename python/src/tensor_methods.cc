// SPDX-License-Identifier: Apache-2.0
// Methods and properties of etude.Tensor.
#include <sstream>
#include <string>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/pending.h"
#include "etude/core/create.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/registry.h"
#include "etude/core/print.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/numpy.h"
#include "python/src/op_object.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

PyObject* text_object(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

// ---- elements as objects of Python

PyObject* number_object(const void* at, DType dtype) {
  return visit_dtype(dtype, [&]<class T>() -> PyObject* {
    const T value = *static_cast<const T*>(at);
    if constexpr (std::is_same_v<T, bool>) {
      return PyBool_FromLong(value);
    } else if constexpr (internal::kIsComplex<T>) {
      return PyComplex_FromDoubles(value.real(), value.imag());
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      return PyLong_FromUnsignedLongLong(value);
    } else if constexpr (std::is_integral_v<T>) {
      return PyLong_FromLongLong(value);
    } else {
      return PyFloat_FromDouble(static_cast<double>(value));
    }
  });
}

// The elements at home, for reading; waits for pending calls.
Tensor readable(const Tensor& x) {
  const CallSite where = here();
  const auto run = [&] { return internal::at_home(to_dense(x), where); };
  const bool is_ready = TensorAccess::has_elements(x) && x.device().is_home();
  return is_ready ? run() : released(run);
}

PyObject* list_object(const char*& at, const Shape& shape, int axis, DType dtype, int64_t step) {
  if (axis == shape.rank()) {
    PyObject* out = number_object(at, dtype);
    at += step;
    return out;
  }
  nb::object list = nb::steal(PyList_New(shape[axis]));
  if (!list.is_valid()) throw nb::python_error();
  for (int64_t i = 0; i < shape[axis]; ++i) {
    PyObject* item = list_object(at, shape, axis + 1, dtype, step);
    if (item == nullptr) throw nb::python_error();
    PyList_SET_ITEM(list.ptr(), i, item);
  }
  return list.release().ptr();
}

PyObject* to_list(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor x = readable(tensor_in(self));
    const char* at = static_cast<const char*>(internal::host_elements(x));
    return list_object(at, x.type()->shape(), 0, x.dtype(), itemsize(x.dtype()));
  });
}

PyObject* item(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& x = tensor_in(self);
    ETUDE_REQUIRE(
        x.type()->count() == 1 || x.type()->count() == kAny,
        "item() needs exactly one element, but the shape is {}. Index it, or use tolist()",
        x.type()->shape().to_string());
    const Tensor home = readable(x);
    return number_object(internal::host_elements(home), home.dtype());
  });
}

PyObject* to_complex(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const nb::object number = nb::steal(item(self, nullptr));
    if (!number.is_valid()) return nullptr;
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyComplex_Type), number.ptr());
  });
}

// ---- dtype and device

PyObject* as_type(PyObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  static const Op& op = Registry::global().at("astype");
  return guarded([&]() -> PyObject* {
    bool copies = true;
    nb::object device = nb::none();
    const Py_ssize_t count = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (given != 1)
      throw nb::type_error("astype(dtype, *, copy=True, device=None) takes one dtype");
    for (Py_ssize_t i = 0; i < count; ++i) {
      const std::string name = nb::cast<std::string>(nb::handle(PyTuple_GET_ITEM(names, i)));
      if (name == "copy") {
        copies = PyObject_IsTrue(args[given + i]) != 0;
      } else if (name == "device") {
        device = nb::borrow(args[given + i]);
      } else {
        throw nb::type_error(("astype(): there is no parameter '" + name + "'").c_str());
      }
    }
    const DType dtype = as_dtype(args[0]);
    const Tensor& x = tensor_in(self);
    if (dtype == x.dtype() && device.is_none())
      return copies ? new_tensor(Tensor(x)) : Py_NewRef(self);
    return new_tensor(with_user_line([&] {
      Tensor out = x;
      if (dtype != x.dtype()) {
        const auto run = [&] { return internal::cast(x, dtype); };
        out = keeps_gil(x.type()->bytes()) ? run() : released(run);
      }
      static_cast<void>(op);
      if (const std::optional<Device> to = as_optional_device(device)) {
        out = released([&] { return out.to(*to); });
      }
      return out;
    }));
  });
}

PyObject* to_device(PyObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t count = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (given != 1 || count > 1)
      throw nb::type_error("to_device(device, /, *, stream=None) takes one device");
    if (count == 1 && args[given] != Py_None) {
      throw nb::value_error("to_device(): 'stream' must be None, since each device has one queue");
    }
    const Device device = as_device(args[0]);
    const Tensor& x = tensor_in(self);
    return new_tensor(with_user_line_released([&] { return x.to(device); }));
  });
}

// x.to("cpu:1") or x.to(etude.float64).
PyObject* to(PyObject* self, PyObject* what) {
  return guarded([&]() -> PyObject* {
    const std::optional<DType> dtype = find_dtype(what);
    PyObject* args[] = {what};
    return dtype ? as_type(self, args, 1, nullptr) : to_device(self, args, 1, nullptr);
  });
}

// ---- interchange

PyObject* array(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject *dtype = Py_None, *copy = Py_None;
  static const char* names[] = {"dtype", "copy", nullptr};
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O", const_cast<char**>(names), &dtype, &copy) ==
      0)
    return nullptr;
  return guarded([&] { return array_protocol(self, dtype, copy).release().ptr(); });
}

PyObject* to_numpy(PyObject* self, PyObject*) {
  return guarded([&] { return numpy_array(tensor_in(self)).release().ptr(); });
}

PyObject* dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", const_cast<char**>(names), &stream,
                                  &version, &device, &copy) == 0) {
    return nullptr;
  }
  return guarded([&] {
    return dlpack_protocol(tensor_in(self), stream, version, device, copy).release().ptr();
  });
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", 1, 0); }

PyObject* array_namespace(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject* version = Py_None;
  static const char* names[] = {"api_version", nullptr};
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "|$O", const_cast<char**>(names), &version) == 0)
    return nullptr;
  return guarded([&]() -> PyObject* {
    const nb::module_ package = nb::module_::import_("etude");
    if (version != Py_None) package.attr("_check_api_version")(nb::handle(version));
    return nb::object(package).release().ptr();
  });
}

// ---- values

PyObject* copy(PyObject* self, PyObject*) {
  return guarded([&] { return new_tensor(Tensor(tensor_in(self))); });
}

PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor x = readable(tensor_in(self));
    const nb::object make = nb::module_::import_("etude._rebuild").attr("tensor");
    const nb::object bytes = nb::steal(PyBytes_FromStringAndSize(
        static_cast<const char*>(internal::host_elements(x)), x.type()->bytes()));
    nb::list sizes;
    for (const int64_t size : x.type()->shape()) sizes.append(size);
    const std::string dtype(name(x.dtype()));
    return nb::make_tuple(make,
                          nb::make_tuple(dtype, nb::steal(PyList_AsTuple(sizes.ptr())), bytes))
        .release()
        .ptr();
  });
}

PyObject* ref(PyObject* self, PyObject*) {
  return PyLong_FromVoidPtr(const_cast<void*>(tensor_in(self).ref()));
}

PyObject* format(PyObject* self, PyObject* spec) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_in(self);
    if (!PyUnicode_Check(spec)) throw nb::type_error("a format is a str");
    if (PyUnicode_GET_LENGTH(spec) == 0) return tensor_str(self);
    if (x.type()->count() != 1)
      throw nb::type_error("a format other than '' needs a tensor of one element");
    const nb::object number = nb::steal(item(self, nullptr));
    return number.is_valid() ? PyObject_Format(number.ptr(), spec) : nullptr;
  });
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

PyObject* html(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& x = tensor_in(self);
    return text_object("<div><code>Tensor</code> shape=" + escaped(x.type()->shape().to_string()) +
                       ", dtype=" + escaped(std::string(name(x.dtype()))) +
                       ", device=" + escaped(x.device().to_string()) + "<pre>" +
                       escaped(internal::elements_text(x)) + "</pre></div>");
  });
}

// ---- properties

PyObject* size_object(int64_t size) {
  if (size == kAny) Py_RETURN_NONE;
  return PyLong_FromLongLong(size);
}

PyObject* shape(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_in(self);
    const bool is_watched = internal::size_reads != nullptr;
    const Shape& sizes = is_watched ? x.shape(here()) : x.type()->shape();
    const int rank = sizes.rank();
    nb::object tuple = nb::steal(PyTuple_New(rank));
    if (!tuple.is_valid()) throw nb::python_error();
    for (int axis = 0; axis < rank; ++axis) {
      PyObject* size = size_object(sizes[axis]);
      if (size == nullptr) throw nb::python_error();
      PyTuple_SET_ITEM(tuple.ptr(), axis, size);
    }
    return tuple.release().ptr();
  });
}

PyObject* dtype(PyObject* self, void*) {
  return guarded([&] { return dtype_object(tensor_in(self).dtype()).release().ptr(); });
}
PyObject* rank(PyObject* self, void*) { return PyLong_FromLong(tensor_in(self).type()->rank()); }
PyObject* size(PyObject* self, void*) {
  return guarded([&] {
    const CallSite where = internal::size_reads != nullptr ? here() : CallSite{};
    return size_object(tensor_in(self).size(where));
  });
}
PyObject* nbytes(PyObject* self, void*) {
  return guarded([&] {
    const CallSite where = internal::size_reads != nullptr ? here() : CallSite{};
    return size_object(tensor_in(self).nbytes(where));
  });
}
PyObject* device(PyObject* self, void*) {
  return guarded([&] { return device_object(tensor_in(self).device()).release().ptr(); });
}
PyObject* matrix_transpose(PyObject* self, void*) {
  static const Op& op = Registry::global().at("matrix_transpose");
  return call_unary(op, self);
}
PyObject* transpose(PyObject* self, void*) {
  const int axes = tensor_in(self).type()->rank();
  if (axes == 2) return matrix_transpose(self, nullptr);
  PyErr_Format(PyExc_ValueError, "T needs two axes, but the tensor has %d. Use mT or permute_dims",
               axes);
  return nullptr;
}

template <class F>
PyCFunction function(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

}  // namespace

PyObject* tensor_repr(PyObject* self) noexcept {
  return guarded([&] { return text_object(tensor_in(self).to_string()); });
}

PyObject* tensor_str(PyObject* self) noexcept {
  return guarded([&] {
    std::ostringstream out;
    out << tensor_in(self);
    return text_object(out.str());
  });
}

PyMethodDef tensor_methods[] = {
    {"item", item, METH_NOARGS, "item($self, /)\n--\n\nThe only element, as a number of Python."},
    {"tolist", to_list, METH_NOARGS, "tolist($self, /)\n--\n\nThe elements as nested lists."},
    {"numpy", to_numpy, METH_NOARGS,
     "numpy($self, /)\n--\n\nA read-only array of NumPy over the elements. A later write to the "
     "tensor copies."},
    {"astype", function(as_type), METH_FASTCALL | METH_KEYWORDS,
     "astype($self, dtype, /, *, copy=True, device=None)\n--\n\nThe elements converted to another "
     "dtype."},
    {"to", to, METH_O,
     "to($self, device_or_dtype, /)\n--\n\nThe tensor on another device, or of another dtype."},
    {"to_device", function(to_device), METH_FASTCALL | METH_KEYWORDS,
     "to_device($self, device, /, *, stream=None)\n--\n\nThe tensor on another device."},
    {"copy", copy, METH_NOARGS,
     "copy($self, /)\n--\n\nAnother variable with the same value; O(1)."},
    {"ref", ref, METH_NOARGS, "ref($self, /)\n--\n\nA hashable identity of the value."},
    {"__copy__", copy, METH_NOARGS, nullptr},
    {"__deepcopy__", copy, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__complex__", to_complex, METH_NOARGS, nullptr},
    {"__format__", format, METH_O, nullptr},
    {"__array__", function(array), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__dlpack__", function(dlpack), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, nullptr},
    {"__array_namespace__", function(array_namespace), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_repr_html_", html, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef tensor_properties[] = {
    {"shape", shape, nullptr, "The sizes of the axes. A size that is not known is None.", nullptr},
    {"dtype", dtype, nullptr, "The dtype of the elements.", nullptr},
    {"ndim", rank, nullptr, "The number of axes.", nullptr},
    {"size", size, nullptr, "The number of elements; None if a size is not known.", nullptr},
    {"nbytes", nbytes, nullptr, "The bytes of the elements.", nullptr},
    {"device", device, nullptr, "Where the elements are.", nullptr},
    {"T", transpose, nullptr, "The transpose of a matrix.", nullptr},
    {"mT", matrix_transpose, nullptr, "The tensor with its last two axes exchanged.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace etude::python
