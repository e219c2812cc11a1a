// SPDX-License-Identifier: Apache-2.0
// etude.Tensor as a type of CPython: one pointer to the tensor's header after the object's head,
// from a free list. A class of nanobind costs an entry of a hash table and twice the memory per
// instance.
#pragma once

#include <utility>

#include <Python.h>

#include "etude/core/tensor.h"

namespace etude::python {

struct TensorObject {
  PyObject_HEAD Tensor value;
  PyObject* weak_references;
};

extern PyTypeObject tensor_type;

inline bool is_tensor_object(const PyObject* object) noexcept {
  return Py_TYPE(object) == &tensor_type;
}
inline Tensor& tensor_in(PyObject* object) noexcept {
  return reinterpret_cast<TensorObject*>(object)->value;
}
// A new reference; None for an absent tensor; null, with an exception set, without memory.
PyObject* new_tensor(Tensor&& value) noexcept;

// The tables of the type, and the sources that define them.
extern PyNumberMethods tensor_number;                                   // tensor_number.cc
extern PyMappingMethods tensor_mapping;                                 // tensor_index.cc
extern PySequenceMethods tensor_sequence;                               // tensor_index.cc
extern PyBufferProcs tensor_buffer;                                     // numpy.cc
extern PyMethodDef tensor_methods[];                                    // tensor_methods.cc
extern PyGetSetDef tensor_properties[];                                 // tensor_methods.cc
PyObject* compare_tensors(PyObject* a, PyObject* b, int how) noexcept;  // tensor_number.cc
PyObject* iterate_tensor(PyObject* x) noexcept;                         // tensor_index.cc
PyObject* tensor_repr(PyObject* x) noexcept;                            // tensor_methods.cc
PyObject* tensor_str(PyObject* x) noexcept;                             // tensor_methods.cc

}  // namespace etude::python
