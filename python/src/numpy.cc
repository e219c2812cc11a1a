// SPDX-License-Identifier: Apache-2.0
#include "python/src/numpy.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/host_door.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

// The format of elements in the struct module's letters; null for bfloat16, which has none.
const char* format_of(DType dtype) {
  static constexpr const char* kFormats[kDTypeCount] = {"?", "b", "h",     "i", "q", "B",  "H", "I",
                                                        "Q", "e", nullptr, "f", "d", "Zf", "Zd"};
  return kFormats[static_cast<std::size_t>(dtype)];
}

std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t itemsize) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
    format.remove_prefix(1);
  if (format.empty()) format = "B";
  const bool is_integer =
      format.size() == 1 && std::string_view("bhilqnBHILQN").find(format[0]) != format.npos;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const char* mine = format_of(dtype);
    if (mine == nullptr || etude::itemsize(dtype) != itemsize) continue;
    if (format == mine) return dtype;
    // C's names of integers differ between platforms, their sizes do not.
    const bool is_signed = format[0] >= 'a';
    if (is_integer && etude::is_integer(dtype) && is_signed == kSignedIntegers.contains(dtype))
      return dtype;
  }
  return {};
}

// The class numpy.generic, if NumPy is loaded.
PyObject* numpy_generic() noexcept {
  static PyObject* found = nullptr;
  if (found != nullptr) return found;
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  PyObject* numpy = PyDict_GetItemString(modules, "numpy");
  if (numpy == nullptr) return nullptr;
  found = PyObject_GetAttrString(numpy, "generic");
  if (found == nullptr) PyErr_Clear();  // it is being imported
  return found;
}

// Elements in row-major order, from any strides in bytes.
void gather(const Py_buffer& view, std::size_t size, char* to) {
  std::vector<Py_ssize_t> at(static_cast<std::size_t>(view.ndim), 0);
  const char* from = static_cast<const char*>(view.buf);
  for (Py_ssize_t n = view.len / static_cast<Py_ssize_t>(size); n > 0; --n, to += size) {
    std::memcpy(to, from, size);
    for (int axis = view.ndim; axis-- > 0;) {
      Py_ssize_t& i = at[static_cast<std::size_t>(axis)];
      from += view.strides[axis];
      if (++i < view.shape[axis]) break;
      from -= i * view.strides[axis];
      i = 0;
    }
  }
}

Shape shape_of(const Py_buffer& view) {
  Shape shape;
  for (int axis = 0; axis < view.ndim; ++axis) shape.push_back(view.shape[axis]);
  return shape;
}

bool is_dense(const Py_buffer& view) {
  const auto address = reinterpret_cast<uintptr_t>(view.buf);
  return PyBuffer_IsContiguous(&view, 'C') != 0 &&
         address % static_cast<uintptr_t>(std::max<Py_ssize_t>(view.itemsize, 1)) == 0;
}

// The tensor of an object with the buffer protocol. `as` replaces the dtype of the format.
Tensor tensor_of_buffer(nb::handle object, std::optional<bool> copy, std::optional<DType> as) {
  const nb::object memory = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!memory.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0 &&
        PyErr_ExceptionMatches(PyExc_TypeError) == 0 &&
        PyErr_ExceptionMatches(PyExc_BufferError) == 0) {
      throw nb::python_error();
    }
    PyErr_Clear();
    return {};
  }
  const Py_buffer& view = *PyMemoryView_GET_BUFFER(memory.ptr());
  const std::optional<DType> dtype =
      as ? as : dtype_of_format(view.format != nullptr ? view.format : "B", view.itemsize);
  ETUDE_REQUIRE(dtype.has_value(),
                "asarray: elements of a {} have the format '{}', which no dtype has. {}",
                type_text(object), view.format != nullptr ? view.format : "B",
                "Convert them first, as with array.astype(\"float32\")");
  const Type* type = intern_type(*dtype, shape_of(view));
  if (copy == false && type->count() > 0) {
    ETUDE_REQUIRE(is_dense(view),
                  "asarray: the rows of this {} are not compact, so that they need a copy. {}",
                  type_text(object), "Leave out copy=False");
    // The memoryview keeps the buffer; it dies where the last tensor over it dies.
    auto owner = std::make_shared<KeptObject>(nb::object(memory));
    return internal::make_tensor_over(type, view.buf, owner);
  }
  Tensor out = internal::make_tensor(type);
  if (type->count() == 0) return out;
  void* to = internal::host_elements_for_writing(out);
  const auto bytes = static_cast<std::size_t>(view.len);
  const auto copy_all = [&] {
    if (PyBuffer_IsContiguous(&view, 'C') != 0) {
      std::memcpy(to, view.buf, bytes);
    } else {
      gather(view, static_cast<std::size_t>(view.itemsize), static_cast<char*>(to));
    }
    return 0;
  };
  if (view.len <= kSmallBytes) {
    copy_all();
  } else {
    released(copy_all);
  }
  return out;
}

// An array of NumPy, which may have a byte order or a dtype without a format.
Tensor tensor_of_numpy(nb::handle array, std::optional<bool> copy) {
  const nb::object dtype = array.attr("dtype");
  const std::string name = nb::cast<std::string>(nb::str(dtype.attr("name")));
  if (name == "bfloat16") {
    return tensor_of_buffer(array.attr("view")("uint16"), copy, kBFloat16);
  }
  if (!nb::cast<bool>(dtype.attr("isnative"))) {
    ETUDE_REQUIRE(
        copy != false,
        "asarray: the bytes of the array's elements are swapped, so that it needs a copy. {}",
        "Leave out copy=False");
    return tensor_of_buffer(array.attr("astype")(dtype.attr("newbyteorder")("=")), true, {});
  }
  ETUDE_REQUIRE(dtype_named(name).has_value(),
                "asarray: the array has elements of {}, which no dtype has. {}", name,
                "Convert them first, as with array.astype(\"float32\")");
  return tensor_of_buffer(array, copy, {});
}

bool is_numpy_array(nb::handle object) {
  const char* name = Py_TYPE(object.ptr())->tp_name;
  return std::string_view(name).starts_with("numpy.") && nb::hasattr(object, "dtype") &&
         nb::hasattr(object, "view");
}

// One exported view of elements: the tensor, and the sizes that Py_buffer points to.
struct Exported {
  Tensor held;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    const Tensor& x = tensor_in(self);
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError,
                      "a tensor is read-only for others, since a write would show in its copies. "
                      "Copy it first");
      return -1;
    }
    const char* format = format_of(x.dtype());
    if (format == nullptr) {
      PyErr_SetString(PyExc_BufferError,
                      "bfloat16 has no format in the buffer protocol. Call x.numpy(), which needs "
                      "the package ml_dtypes, or x.astype(etude.float32)");
      return -1;
    }
    auto exported = std::make_unique<Exported>();
    exported->held = internal::at_home(to_dense(x), here());
    const Shape& shape = exported->held.type()->shape();
    exported->shape.assign(shape.begin(), shape.end());
    exported->strides.assign(exported->shape.size(), itemsize(x.dtype()));
    for (std::size_t axis = exported->shape.size(); axis-- > 1;) {
      exported->strides[axis - 1] = exported->strides[axis] * exported->shape[axis];
    }
    view->buf = const_cast<void*>(internal::host_elements(exported->held));
    view->len = exported->held.type()->bytes();
    view->itemsize = itemsize(x.dtype());
    view->readonly = 1;
    // Without sizes there is one axis: of a view with more, Python reads `shape` in any case.
    const bool has_sizes = (flags & PyBUF_ND) == PyBUF_ND;
    view->ndim = has_sizes ? shape.rank() : 1;
    view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->shape = has_sizes ? exported->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = exported.release();
    view->obj = Py_NewRef(self);
    return 0;
  } catch (...) {
    set_current_exception();
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

}  // namespace

PyBufferProcs tensor_buffer = {get_buffer, release_buffer};

bool is_numpy_scalar(nb::handle object) noexcept {
  PyObject* generic = numpy_generic();
  return generic != nullptr &&
         PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(generic)) != 0;
}

bool is_foreign_array(nb::handle object) noexcept {
  return PyObject_CheckBuffer(object.ptr()) != 0 || nb::hasattr(object, "__dlpack__") ||
         nb::hasattr(object, "__array__");
}

Tensor tensor_of_array(nb::handle object, std::optional<bool> copy) {
  if (PyBytes_Check(object.ptr()) || PyUnicode_Check(object.ptr()) || PyType_Check(object.ptr()))
    return {};
  if (is_numpy_array(object)) return tensor_of_numpy(object, copy);
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    Tensor out = tensor_of_buffer(object, copy, {});
    if (out.has_value()) return out;
  }
  if (nb::hasattr(object, "__dlpack__")) {
    return tensor_of_dlpack(object, copy.has_value() ? copy : std::optional<bool>(true),
                            nb::none());
  }
  if (nb::hasattr(object, "__array__")) return tensor_of_numpy(object.attr("__array__")(), copy);
  return {};
}

nb::object numpy_array(const Tensor& x) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  if (x.dtype() != kBFloat16)
    return numpy.attr("asarray")(nb::steal(PyMemoryView_FromObject(wrap(x).ptr())));
  const Type* as = intern_type(kUInt16, x.type()->shape());
  const Tensor bits = internal::with_type(internal::at_home(to_dense(x), here()), as);
  nb::object dtype;
  try {
    dtype = nb::module_::import_("ml_dtypes").attr("bfloat16");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    throw Error(ErrorCode::kUnimplemented,
                "NumPy itself has no bfloat16. Install the package ml_dtypes, or call "
                "x.astype(etude.float32)");
  }
  return numpy.attr("asarray")(nb::steal(PyMemoryView_FromObject(wrap(bits).ptr())))
      .attr("view")(dtype);
}

nb::object array_protocol(nb::handle x, nb::handle dtype, nb::handle copy) {
  nb::object out = numpy_array(tensor_of(x));
  const bool casts = !dtype.is_none() && !out.attr("dtype").equal(dtype);
  if (copy.ptr() == Py_False && casts) {
    throw nb::value_error("__array__(): another dtype needs a copy, which copy=False forbids");
  }
  if (casts) return out.attr("astype")(dtype);
  return copy.ptr() == Py_True ? out.attr("copy")() : out;
}

}  // namespace etude::python
