// SPDX-License-Identifier: Apache-2.0
// How values of a Python class take part in pytrees. Found once per class.
#include <string>
#include <unordered_map>
#include <utility>

#include "etude/base/check.h"
#include "python/src/program/held.h"
#include "python/src/program/tree.h"

namespace etude::python {
namespace {

struct Classes {
  // Classes in the table are kept: an address then stays the address of one class.
  std::unordered_map<PyTypeObject*, ClassInfo> all;
  PyObject* keys = PyDict_New();  // (type, key) -> key
  PyObject* module = nullptr;     // the class Module
  PyObject* constant = nullptr;   // the class NoDerivative
  PyTypeObject* layer = nullptr;  // the class of layers
  PyTypeObject* optimizer = nullptr;
  static Classes& get() {
    static Classes* const classes = new Classes;
    return *classes;
  }
};

PyObject* interned(nb::handle name) {
  PyObject* text = name.inc_ref().ptr();
  PyUnicode_InternInPlace(&text);
  return text;
}

std::vector<PyObject*> interned_all(nb::handle names) {
  std::vector<PyObject*> out;
  for (const nb::handle name : nb::iter(names)) out.push_back(interned(name));
  return out;
}

bool is_of_collections(PyTypeObject* type, const char* name) {
  if (PyType_IsSubtype(type, &PyDict_Type) == 0) return false;
  const nb::object found = nb::module_::import_("collections").attr(name);
  return reinterpret_cast<PyObject*>(type) == found.ptr();
}

// A class of arrays of another library.
bool is_array_class(nb::handle type) {
  return nb::hasattr(type, "__array_interface__") || nb::hasattr(type, "__array_struct__") ||
         nb::hasattr(type, "__dlpack__") || nb::hasattr(type, "__array__");
}

ClassInfo find_class(PyTypeObject* type) {
  const Classes& classes = Classes::get();
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  ClassInfo out;
  out.type = type;
  const auto node = [&](NodeKind kind) {
    out.of = Class::kNode;
    out.node = kind;
    return out;
  };
  if (type == Py_TYPE(Py_None)) return node(NodeKind::kNone);
  if (type == &PyList_Type) return node(NodeKind::kList);
  if (type == &PyTuple_Type) return node(NodeKind::kTuple);
  if (type == &PyDict_Type || is_of_collections(type, "OrderedDict")) return node(NodeKind::kDict);
  if (is_of_collections(type, "defaultdict")) {
    out.has_default = true;
    return node(NodeKind::kDict);
  }
  if (type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
      type == &PyComplex_Type) {
    out.of = Class::kNumber;
    return out;
  }
  if (handle.ptr() == classes.constant) return node(NodeKind::kConstant);
  if (PyType_IsSubtype(type, &PyTuple_Type) != 0 && nb::hasattr(handle, "_fields")) {
    out.fields = interned_all(handle.attr("_fields"));
    return node(NodeKind::kNamedTuple);
  }
  if (classes.layer != nullptr && PyType_IsSubtype(type, classes.layer) != 0) {
    return node(NodeKind::kLayer);
  }
  if (classes.optimizer != nullptr && PyType_IsSubtype(type, classes.optimizer) != 0) {
    return node(NodeKind::kOptimizer);
  }
  if (classes.module != nullptr &&
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(classes.module)) != 0) {
    return node(NodeKind::kModule);
  }
  if (nb::hasattr(handle, "__dataclass_fields__")) {
    const nb::object fields = nb::module_::import_("dataclasses").attr("fields")(handle);
    for (const nb::handle field : nb::iter(fields)) {
      out.fields.push_back(interned(field.attr("name")));
    }
    return node(NodeKind::kDataclass);
  }
  if (is_array_class(handle)) out.of = Class::kArray;
  return out;
}

}  // namespace

const ClassInfo& class_of(PyTypeObject* type) {
  auto& all = Classes::get().all;
  const auto found = all.find(type);
  if (found != all.end()) return found->second;
  ClassInfo info = find_class(type);
  Py_INCREF(type);
  return all.emplace(type, std::move(info)).first->second;
}

PyObject* canonical_key(PyObject* key) {
  const bool is_text = PyUnicode_CheckExact(key) != 0;
  if (is_text ? PyUnicode_CHECK_INTERNED(key) != 0 : key == Py_None) return key;
  // 1 and True are equal, but two keys. Texts equal texts only, and programs make them at each
  // call.
  const nb::object typed =
      is_text
          ? nb::borrow(key)
          : nb::make_tuple(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(key))), nb::handle(key));
  PyObject* const keys = Classes::get().keys;
  PyObject* found = PyDict_GetItemWithError(keys, typed.ptr());
  if (found != nullptr) return found;
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  PyObject* canonical = key;
  Py_INCREF(canonical);
  if (is_text) PyUnicode_InternInPlace(&canonical);
  const int failed = PyDict_SetItem(keys, typed.ptr(), canonical);
  Py_DECREF(canonical);
  if (failed != 0) throw nb::python_error();
  return canonical;
}

std::string key_text(PyObject* key) {
  const nb::handle handle(key);
  return nb::cast<std::string>(PyUnicode_Check(key) != 0 ? nb::object(nb::borrow(handle))
                                                         : nb::object(nb::repr(handle)));
}

namespace {

void register_class(nb::handle type, nb::handle flatten, nb::handle unflatten) {
  ETUDE_REQUIRE(PyType_Check(type.ptr()) != 0,
                "register_pytree: the first argument is a {}, but must be a class",
                type_text(type));
  auto* const class_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  const Class before = class_of(class_type).of;
  ETUDE_REQUIRE(before == Class::kHost || before == Class::kArray,
                "register_pytree: {} is a structure already", class_type->tp_name);
  ClassInfo info;
  info.of = Class::kNode;
  info.node = NodeKind::kCustom;
  info.type = class_type;
  info.flatten = flatten.inc_ref().ptr();
  info.unflatten = unflatten.inc_ref().ptr();
  Classes::get().all[class_type] = std::move(info);
}

// Sets the facts about a class of the package.
void set_class(nb::handle type, Class of, NodeKind node) {
  auto* const class_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  ClassInfo info;
  info.of = of;
  info.node = node;
  info.type = class_type;
  Classes::get().all[class_type] = std::move(info);
}

nb::tuple flatten_to_list(nb::handle value) {
  const Tree tree = tree_of(value, Numbers::kKeep);
  nb::list leaves;
  for (const nb::object& leaf : tree.leaves) leaves.append(leaf);
  return nb::make_tuple(leaves, nb::capsule(tree.def));
}

const TreeDef& def_of(nb::handle capsule) {
  return *static_cast<const TreeDef*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
}

nb::object unflatten_list(nb::handle capsule, nb::sequence values) {
  const TreeDef& def = def_of(capsule);
  std::vector<nb::object> leaves;
  for (const nb::handle value : values) leaves.push_back(nb::borrow(value));
  ETUDE_REQUIRE(leaves.size() == def.leaves.size(),
                "tree.unflatten: {} leaves were given, but {} has {}", leaves.size(),
                def.to_string(), def.leaves.size());
  return unflatten(def, leaves);
}

}  // namespace

void mark_tensor_class(PyTypeObject* type, bool is_variable) {
  set_class(nb::handle(reinterpret_cast<PyObject*>(type)),
            is_variable ? Class::kVariable : Class::kTensor, NodeKind::kTensor);
}
void set_layer_class(PyTypeObject* type) { Classes::get().layer = type; }
void set_optimizer_class(PyTypeObject* type) { Classes::get().optimizer = type; }

void bind_tree(nb::module_& m) {
  m.def("_register_pytree", register_class, nb::arg(), nb::arg().none(), nb::arg().none());
  m.def("_set_module_class", [](nb::handle type) { Classes::get().module = type.inc_ref().ptr(); });
  m.def("_set_constant_class",
        [](nb::handle type) { Classes::get().constant = type.inc_ref().ptr(); });
  m.def("_flatten", flatten_to_list, nb::arg().none());
  m.def("_unflatten", unflatten_list);
  m.def(
      "_leaves_like",
      [](nb::handle capsule, nb::handle value, const std::string& what) {
        nb::list out;
        for (nb::object& leaf : leaves_like(def_of(capsule), value, what)) out.append(leaf);
        return out;
      },
      nb::arg(), nb::arg().none(), nb::arg());
  // Of a form, or of a structure.
  m.def(
      "_paths",
      [](nb::handle of, bool is_python) {
        const TreeDef& def =
            PyCapsule_CheckExact(of.ptr()) != 0 ? def_of(of) : *tree_of(of, Numbers::kKeep).def;
        nb::list out;
        for (std::size_t i = 0; i < def.leaves.size(); ++i) {
          out.append(is_python ? def.python_path(i) : def.paths[i]);
        }
        return out;
      },
      nb::arg(), nb::arg() = false);
  m.def("_tree_text", [](nb::handle capsule) { return def_of(capsule).to_string(); });
  m.def("_same_tree", [](nb::handle a, nb::handle b) { return &def_of(a) == &def_of(b); });
  mark_tensor_class(Py_TYPE(wrap(Tensor(0.0F)).ptr()), false);
  mark_tensor_class(reinterpret_cast<PyTypeObject*>(nb::type<Variable>().ptr()), true);
}

}  // namespace etude::python
