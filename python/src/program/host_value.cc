// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/host_value.h"

#include "etude/base/check.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

// A host value that a graph was made for.
struct KeptHost {
  HostEquality equality;
  bool is_weak;
  KeptObject object;    // a weak reference if is_weak
  KeptObject function;  // of a method
};

// The object of a weak reference; borrowed. Without the GIL it may only be compared.
PyObject* referent(const KeptObject& weak) {
  return reinterpret_cast<PyWeakReference*>(weak.get().ptr())->wr_object;
}

bool equal_values(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  return with_gil([&] {
    const int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) PyErr_Clear();  // values that cannot be compared are not equal
    return same == 1;
  });
}

bool equal_host(const void* given_leaf, const void* kept_host) {
  const auto& given = *static_cast<const HostLeaf*>(given_leaf);
  const auto& kept = *static_cast<const KeptHost*>(kept_host);
  if (given.equality != kept.equality) return false;
  switch (given.equality) {
    case HostEquality::kValue:
      return equal_values(given.object, kept.object.get().ptr());
    case HostEquality::kMethod:
      return referent(kept.object) == PyMethod_GET_SELF(given.object) &&
             kept.function.get().ptr() == PyMethod_GET_FUNCTION(given.object);
    case HostEquality::kIdentity:
      break;
  }
  return given.object == (kept.is_weak ? referent(kept.object) : kept.object.get().ptr());
}

std::shared_ptr<const void> keep_host(const void* leaf) {
  const auto& given = *static_cast<const HostLeaf*>(leaf);
  return with_gil([&]() -> std::shared_ptr<const void> {
    auto kept = std::make_shared<KeptHost>();
    kept->equality = given.equality;
    kept->is_weak = false;
    nb::handle object = given.object;
    if (given.equality == HostEquality::kMethod) {
      object = PyMethod_GET_SELF(given.object);
      kept->function = KeptObject(nb::borrow(PyMethod_GET_FUNCTION(given.object)));
    }
    if (given.equality != HostEquality::kValue) {
      PyObject* const weak = PyWeakref_NewRef(object.ptr(), nullptr);
      if (weak != nullptr) {
        kept->is_weak = true;
        kept->object = KeptObject(nb::steal(weak));
        return kept;
      }
      PyErr_Clear();  // an object without weak references is kept
    }
    kept->object = KeptObject(nb::borrow(object));
    return kept;
  });
}

bool is_gone(const void* kept_host) {
  const auto& kept = *static_cast<const KeptHost*>(kept_host);
  return kept.is_weak && referent(kept.object) == Py_None;
}

bool can_be_weak(PyObject* object) { return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)); }

}  // namespace

HostLeaf host_leaf(PyObject* object, const std::string& path, const std::string& function) {
  PyTypeObject* const type = Py_TYPE(object);
  if (PyMethod_Check(object) != 0 && can_be_weak(PyMethod_GET_SELF(object))) {
    return {object, HostEquality::kMethod};
  }
  if (type->tp_richcompare == PyBaseObject_Type.tp_richcompare || PyType_Check(object) != 0) {
    return {object, HostEquality::kIdentity};
  }
  ETUDE_REQUIRE(type->tp_hash != nullptr && type->tp_hash != PyObject_HashNotImplemented,
                "argument '{}' of function '{}' is a {}, which cannot be a key of a graph: it has "
                "an equality and no hash. Arguments are tensors, numbers, texts, lists, tuples, "
                "dicts, dataclasses and registered classes of these, and other hashable objects",
                path, function, type_text(object));
  return {object, HostEquality::kValue};
}

internal::HostValue host_value(const HostLeaf& leaf) {
  return {&leaf, equal_host, keep_host, is_gone};
}

std::string host_text(PyObject* object) {
  const nb::object text = nb::steal(PyObject_Repr(object));
  if (!text.is_valid()) {
    PyErr_Clear();
    return Py_TYPE(object)->tp_name;
  }
  std::string out = nb::cast<std::string>(text);
  if (out.size() > 60) out = out.substr(0, 57) + "...";
  return out;
}

}  // namespace etude::python
