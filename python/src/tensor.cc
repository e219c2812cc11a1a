// SPDX-License-Identifier: Apache-2.0
// The type etude.Tensor: making and destroying its objects.
#include "python/src/bind.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

#ifdef Py_GIL_DISABLED
// Without the GIL a free list would need a lock; the allocator of the interpreter has one per
// thread.
constexpr std::size_t kFreeListSize = 0;
#else
constexpr std::size_t kFreeListSize = 256;
#endif

TensorObject* free_list[kFreeListSize + 1];
std::size_t free_count = 0;

PyObject* allocate() noexcept {
  if (kFreeListSize > 0 && free_count > 0) {
    auto* object = reinterpret_cast<PyObject*>(free_list[--free_count]);
    return PyObject_Init(object, &tensor_type);
  }
  auto* object = PyObject_New(TensorObject, &tensor_type);
  if (object != nullptr) object->weak_references = nullptr;
  return reinterpret_cast<PyObject*>(object);
}

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<TensorObject*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  object->value.~Tensor();
  object->weak_references = nullptr;
  if (free_count < kFreeListSize) {
    free_list[free_count++] = object;
  } else {
    PyObject_Free(self);
  }
}

// Tensor(value, dtype=None, device=None) is asarray(value, ..., copy=True).
PyObject* construct(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  const nb::object package = nb::steal(PyImport_ImportModule("etude._core"));
  if (!package.is_valid()) return nullptr;
  const nb::object make = nb::steal(PyObject_GetAttrString(package.ptr(), "tensor"));
  return make.is_valid() ? PyObject_Call(make.ptr(), args, kwargs) : nullptr;
}

PyTypeObject make_type() noexcept {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "etude.Tensor";
  type.tp_basicsize = sizeof(TensorObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_doc =
      "Tensor(value, dtype=None, device=None)\n--\n\n"
      "An array of numbers with mutable value semantics: an object is one variable, and a write to "
      "it is never visible through another object.";
  type.tp_weaklistoffset = offsetof(TensorObject, weak_references);
  type.tp_new = construct;
  type.tp_dealloc = deallocate;
  type.tp_repr = tensor_repr;
  type.tp_str = tensor_str;
  type.tp_hash = PyObject_HashNotImplemented;  // == compares elements
  type.tp_richcompare = compare_tensors;
  type.tp_iter = iterate_tensor;
  type.tp_as_number = &tensor_number;
  type.tp_as_sequence = &tensor_sequence;
  type.tp_as_mapping = &tensor_mapping;
  type.tp_as_buffer = &tensor_buffer;
  type.tp_methods = tensor_methods;
  type.tp_getset = tensor_properties;
  return type;
}

}  // namespace

PyTypeObject tensor_type = make_type();

PyObject* new_tensor(Tensor&& value) noexcept {
  if (!value.has_value()) Py_RETURN_NONE;
  PyObject* object = allocate();
  if (object != nullptr) new (&tensor_in(object)) Tensor(std::move(value));
  return object;
}

bool is_tensor(nb::handle object) noexcept { return is_tensor_object(object.ptr()); }
const Tensor& tensor_of(nb::handle object) noexcept { return tensor_in(object.ptr()); }
Tensor& mutable_tensor_of(nb::handle object) noexcept { return tensor_in(object.ptr()); }

nb::object wrap(Tensor value) {
  PyObject* object = new_tensor(std::move(value));
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

void bind_tensor(nb::module_& m) {
  if (PyType_Ready(&tensor_type) < 0) throw nb::python_error();
  // An operator of an array of NumPy and a tensor is the operator of the tensor.
  if (PyDict_SetItemString(tensor_type.tp_dict, "__array_ufunc__", Py_None) < 0)
    throw nb::python_error();
  m.attr("Tensor") = nb::handle(reinterpret_cast<PyObject*>(&tensor_type));
}

}  // namespace etude::python
